"""Selects the head that suits the samples: prototype, linear or full, by cross-validation.

Each is fitted without a tenth of the samples, and evaluated on these; then without the next tenth.
All use the same stratified folds. The loss decides: with few samples, it tells more than accuracy
(measured: python -m bench heads). Ten folds: Kohavi (1995), A Study of Cross-Validation and
Bootstrap for Accuracy Estimation and Model Selection.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator, Mapping
from glob import escape
from time import monotonic

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from service.training.choices import choose
from service.training.data.batches import Indices
from service.training.data.datasets import Datasets
from service.training.data.sampler import Sampler, by_class
from service.training.engine import Engine
from service.training.engines.manifest import Manifest, manifest_of
from service.training.errors import LossNotFinite
from service.training.evaluation.validation import outputs_of
from service.training.heads.computing import compute_head
from service.training.heads.features import Floats
from service.training.heads.kinds import Head, Kind, plain
from service.training.heads.prototypes import Doubles, likeliest_scale
from service.training.loop import train
from service.training.protocol.messages.training import Chosen, LoopState, Train
from service.training.schedule import make_plan

FOLDS, ENOUGH = 10, 100
"""Folds, and how many evaluated samples are enough."""
MARGIN = 0.5
"""Standard errors by which a head must be better than one that is faster to fit."""

OpenEngine = Callable[[Train], Engine]


def alone(task: Train) -> Train:
    """The task, with a learning rate of 0 for everything but the head if it asks for a linear one.

    The learning rate is chosen before that: a range test of the head alone takes the loss's first
    rise, which is harmless there, for divergence (measured).
    """
    head = task.hyperparameters.head
    if not isinstance(head, Head) or head.kind != "linear":
        return task
    manifest = manifest_of(task.artifacts)
    if manifest.head is None or not _has_more(manifest):
        return task
    factors = {**{escape(name): 1.0 for name in manifest.head.axes}, "*": 0.0}
    wanted = replace(task.hyperparameters, rate_factors=factors)
    return replace(task, hyperparameters=wanted)


def choose_head(
    task: Train, datasets: Datasets, open_engine: OpenEngine, *, tick: Callable[[], None]
) -> Chosen:
    """The best head, with the reason, and the choices of `choose` for it.

    The same task gives the same choice.
    """
    rest = replace(task, to_choose=tuple(name for name in task.to_choose if name != "head"))
    held = list(folds(datasets, seed=task.hyperparameters.seed))
    scores: dict[Kind, Score] = {}
    labels = datasets.train.labels[np.concatenate(held)]
    chosen: dict[Kind, Chosen] = {}
    for kind in candidates(manifest_of(task.artifacts)):
        asked = replace(rest, hyperparameters=replace(rest.hyperparameters, head=Head(kind)))
        chosen[kind] = choose(asked, datasets, open_engine, tick=tick)
        wanted = replace(asked.hyperparameters, **chosen[kind].values)
        wanted = replace(wanted, early_stopping_patience=None)  # it would use held-out samples
        one = _Judge(alone(replace(asked, hyperparameters=wanted)), datasets, open_engine, tick)
        parts = [one.logits(part) for part in held]
        scores[kind] = Score.of(np.concatenate(parts), labels)
    best = simplest(scores)
    told = ", ".join(
        f"{kind} {score.loss:.3f} ({100 * score.accuracy:.1f} % right)"
        for kind, score in scores.items()
    )
    judged = sum(map(len, held))
    is_lowest = scores[best].loss == min(score.loss for score in scores.values())
    first = "least loss" if is_lowest else "near the least loss, and quicker to fit,"
    reason = f"{first} on {judged} samples left out in {len(held)} folds: {told}"
    values = chosen[best].values | {"head": plain({"kind": best})}
    return Chosen(values, chosen[best].reasons | {"head": reason})


def simplest(scores: Mapping[Kind, Score]) -> Kind:
    """The first whose loss is above the lowest by no more than MARGIN standard errors.

    Source: Breiman et al. (1984), Classification and Regression Trees, 3.4.3, which uses one whole
    standard error.
    """
    lowest = min(scores.values(), key=lambda score: score.loss)
    return next(
        kind
        for kind, score in scores.items()
        if score.loss - lowest.loss <= MARGIN * score.doubt(lowest)
    )


class Score(Struct, frozen=True):
    """accuracy: the share that is right. losses: (evaluated,), cross entropy at the temperature
    with the lowest mean, so that no kind loses because it is over- or underconfident.
    """

    accuracy: float
    losses: Doubles

    @property
    def loss(self) -> float:
        return float(self.losses.mean())

    def doubt(self, other: Score) -> float:
        """The standard error of the difference of the losses."""
        apart = self.losses - other.losses
        return float(apart.std(ddof=1) / np.sqrt(len(apart))) if len(apart) > 1 else 0.0

    @classmethod
    def of(cls, logits: Floats, labels: Indices) -> Score:
        """logits: (samples, classes)."""
        away = (logits.max(axis=1, keepdims=True) - logits).astype(np.float64)
        scaled = likeliest_scale(away, labels, np.ones(len(labels))) * away
        chosen = scaled[np.arange(len(labels)), labels]
        losses = np.log(np.exp(-scaled).sum(axis=1)) + chosen
        return cls(float((logits.argmax(axis=1) == labels).mean()), losses)


def candidates(manifest: Manifest) -> Iterator[Kind]:
    """The fastest first; no prototype without a bias, and no full if only the head trains."""
    assert manifest.head is not None
    if manifest.head.bias is not None:
        yield "prototype"
    yield "linear"
    if _has_more(manifest):
        yield "full"


def folds(datasets: Datasets, *, seed: int) -> Iterator[Indices]:
    """Positions to leave out, as many of each class in every fold."""
    own = datasets.own
    order = np.random.Generator(np.random.PCG64([seed % 2**64, 0, 3])).permutation(own)
    by_label = order[np.argsort(datasets.train.labels[order], kind="stable")]
    judged = 0
    for fold in range(min(FOLDS, len(own))):
        if judged >= ENOUGH:
            return
        held = np.sort(by_label[fold::FOLDS])
        judged += len(held)
        yield held


class _Judge(Struct):
    """Fits a head without some samples, and predicts these with it."""

    task: Train
    datasets: Datasets
    open_engine: OpenEngine
    tick: Callable[[], None]

    def logits(self, held: Indices) -> Floats:
        """The head's logits for each, (held, classes); 0 if it cannot be fitted."""
        wanted, samples = self.task.hyperparameters, self.datasets.train
        whole = self.datasets.sampler(wanted)
        left = np.setdiff1d(whole.own, held)
        classes = by_class(left, samples.labels) if whole.classes else ()
        sampler = replace(whole, own=left, classes=classes)
        nothing = np.zeros((len(held), self.task.signature.target.num_classes or 0), np.float32)
        if not len(sampler.own):
            return nothing
        try:
            engine = self._fitted(sampler)
        except LossNotFinite:
            return nothing
        logits = outputs_of(engine, samples, held, tick=self.tick)
        del engine
        gc.collect()  # Engines are in reference cycles.
        return logits

    def _fitted(self, sampler: Sampler) -> Engine:
        wanted, began = self.task.hyperparameters, monotonic()
        engine = self.open_engine(self.task)
        if wanted.computes_head:
            engine, _ = compute_head(self.task, engine, self.datasets, sampler, tick=self.tick)
        train(
            engine,
            self.datasets.train,
            sampler,
            make_plan(wanted, len(sampler)),
            self,
            state=LoopState(),
            seconds=lambda: monotonic() - began,
        )
        return engine

    def after_steps(self, *_: object) -> None:
        """These steps are not reported."""
        self.tick()

    def after_epoch(self, state: LoopState) -> LoopState:
        """No validation between epochs."""
        return replace(state, epoch=state.epoch + 1)


def _has_more(manifest: Manifest) -> bool:
    assert manifest.head is not None
    return {parameter.name for parameter in manifest.parameters} > {*manifest.head.axes}
