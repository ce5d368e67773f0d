"""Chooses a job's hyperparameters: how long it trains, how fast, and how it weights classes.

The rules were tuned on small networks and data sets: python -m bench defaults.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from math import ceil, inf
from typing import Any, NamedTuple

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from service.training.data.batches import Batch, Batches
from service.training.data.counting import class_counts
from service.training.data.datasets import Datasets
from service.training.data.sampler import Sampler
from service.training.engine import Engine
from service.training.hyperparameters import Hyperparameters
from service.training.protocol.messages.training import Chosen, Train
from service.training.schedule import make_plan
from storage.errors import counted

MOST_STEPS, MOST_EPOCHS, FEWEST_EPOCHS = 4_000, 40, 3
PATIENCE_EPOCHS, FEWEST_VALIDATION = 10, 50
TEST_STEPS, FEWEST_TEST_STEPS = 50, 20
SKEWED = 3.0
REPLAY, MOST_PASSES = 0.4, 2
"""The base set's share of an epoch, and how often an epoch may repeat the base set. A larger share
is at the expense of new samples."""
MOST_REPLAY, FEWEST_REPLAYED = 0.9, 100
NEW_CLASS_REPLAY, NEW_CLASS_REPLAYED = 0.95, 400
"""The maximum of that share, and the number of base set samples that a small job raises its share
for; with a class that the base set lacks, and which takes its place from the others."""
PULL = 0.03
"""Through label smoothing, the weight of a sample of the largest class for the smallest class."""
SMOOTH, NEAR, GONE = 0.8, 1.05, 2.0
"""Range test: the decay of smoothed losses; the ratio to the lowest loss up to which a loss is near
it; the ratio to the loss before training beyond which it has diverged."""


class Drawn(NamedTuple):
    """The samples to train on, and the sampler that draws epochs of them."""

    samples: Batches
    sampler: Sampler

    def class_counts(self, classes: int) -> NDArray[np.float64]:
        """(classes,) new labels in an epoch; with replayed ones if a class has no new ones."""
        own, base = (
            class_counts(self.samples.labels, chosen, classes)
            for chosen in (self.sampler.own, self.sampler.base)
        )
        share = self.sampler.replayed / max(1, len(self.sampler.base))
        together = np.asarray(own + share * base)
        return np.where(own[together > 0].all(), own, together)


class Rates(NamedTuple):
    """Bounds on an optimizer's learning rate.

    divisor: applied to the highest rate near the lowest loss in a range test from `first` to
    `last`. Source: Smith (2017), Cyclical Learning Rates, 3.3, where it is about ten. travel:
    maximum of rate times steps, as Adam moves no weight further than that. most: maximum rate.
    """

    divisor: float
    travel: float
    most: float
    first: float
    last: float


ADAM = Rates(divisor=8, travel=1.5, most=0.01, first=1e-4, last=1)
RATES = {
    "sgd": Rates(divisor=20, travel=inf, most=0.1, first=1e-3, last=10),
    "lion": Rates(divisor=20, travel=0.35, most=0.002, first=1e-5, last=0.1),
}
"""Rates by optimizer; ADAM for the others."""


def choose(
    task: Train,
    datasets: Datasets,
    open_engine: Callable[[Train], Engine],
    *,
    tick: Callable[[], None],
) -> Chosen:
    """The hyperparameters in `task.to_choose`, each with its reason.

    open_engine: opens an engine that may be trained and discarded. tick runs between steps. The
    same task gives the same choices.
    """
    wanted = task.hyperparameters
    values: dict[str, Any] = {}
    reasons: dict[str, str] = {}

    def take(name: str, value: Any, reason: str) -> None:
        if name in task.to_choose and value is not None:
            values[name], reasons[name] = value, reason

    take("replay", *_replay(task, datasets))
    drawn = Drawn(datasets.train, datasets.sampler(replace(wanted, **values)))
    samples = len(drawn.sampler)
    take("batch_size", _batch_size(samples), f"for {counted(samples, 'training sample')}")
    rows = values.get("batch_size", wanted.batch_size) * wanted.accumulation_steps
    take("epochs", *_epochs(samples, rows))
    take("schedule", "cosine", "the learning rate falls to 0 with the last step")
    for_classes = _for_skewed_classes(task, drawn)
    for name, value in for_classes.items():
        take(name, value, "the largest class has over three times the samples of the smallest")
    if not for_classes and wanted.sampling == "shuffled":
        # With class weights, the validation loss would weight classes differently.
        take("early_stopping_patience", *_patience(len(datasets.validation)))
    if "learning_rate" in task.to_choose:
        task = replace(task, hyperparameters=replace(wanted, **values))
        take("learning_rate", *_learning_rate(task, drawn, open_engine, tick))
    return Chosen(values, reasons)


def _batch_size(samples: int) -> int:
    return 32 if samples >= 512 else 16 if samples >= 64 else 8


def _epochs(samples: int, rows: int) -> tuple[int, str]:
    fitting = round(MOST_STEPS * rows / samples)
    epochs = max(FEWEST_EPOCHS, min(MOST_EPOCHS, fitting))
    steps = epochs * ceil(samples / rows)
    return epochs, f"{steps:,} steps on batches of {rows}; at most {MOST_EPOCHS} passes"


def _patience(validation: int) -> tuple[int | None, str]:
    if validation < FEWEST_VALIDATION:
        return None, ""
    return PATIENCE_EPOCHS, f"{validation} validation samples tell when to stop"


def _replay(task: Train, datasets: Datasets) -> tuple[float | None, str]:
    """A small base set gets a smaller share, since the model would soon memorize it."""
    base, own = len(datasets.base), len(datasets.train) - len(datasets.base)
    if not base:
        return None, ""
    most, fewest, of_new = MOST_REPLAY, FEWEST_REPLAYED, ""
    classes = task.signature.target.num_classes
    if classes is not None and _has_new_class(datasets, classes):
        most, fewest = NEW_CLASS_REPLAY, NEW_CLASS_REPLAYED
        of_new = ", with a class that it lacks"
    drawn = min(MOST_PASSES * base, max(REPLAY / (1 - REPLAY) * own, fewest))
    share = min(most, round(drawn / (drawn + own), 3))
    return share, f"keeps what the base set tells: {base} samples beside {own} others{of_new}"


def _has_new_class(datasets: Datasets, classes: int) -> bool:
    """Whether the others have a class that the base set lacks."""
    own, base = (
        class_counts(datasets.train.labels, some, classes) > 0
        for some in (datasets.own, datasets.base)
    )
    return bool((own & ~base).any())


def _for_skewed_classes(task: Train, drawn: Drawn) -> dict[str, Any]:
    """Weights that make all classes count equally; with smoothing, since rare samples are soon
    overfitted.
    """
    classes = task.signature.target.num_classes
    is_balanced = task.hyperparameters.sampling == "balanced"
    if is_balanced or classes is None or task.artifacts.class_step_model is None:
        return {}
    counts = drawn.class_counts(classes)
    there = counts[counts > 0]
    if there.max() <= SKEWED * there.min():
        return {}
    pull = PULL * len(there) * there.min() / there.max()
    return {"class_weights": balanced(counts), "label_smoothing": float(f"{min(0.1, pull):.2g}")}


def balanced(counts: NDArray[Any]) -> tuple[float, ...]:
    """A weight per class, inverse to its count, 1 on average over samples; 0 for empty classes."""
    there = counts > 0
    share = counts.sum() / there.sum()
    weights = np.divide(share, counts, where=there, out=np.zeros(len(counts)))
    return tuple(round(float(weight), 6) for weight in weights)


def _learning_rate(
    task: Train, drawn: Drawn, open_engine: Callable[[Train], Engine], tick: Callable[[], None]
) -> tuple[float, str]:
    wanted = task.hyperparameters
    rates = RATES.get(wanted.optimizer, ADAM)
    planned = make_plan(wanted, len(drawn.sampler)).total_steps
    steps = planned or MOST_STEPS
    plain = replace(wanted, class_weights=None, label_smoothing=0.0)
    engine = open_engine(replace(task, hyperparameters=plain))  # the loss that validation uses
    best = _range_test(task, drawn, engine, rates, tick=tick, steps=steps // 10)
    bounds = {
        f"1/{rates.divisor:g} of {best:.2g}, above which the loss rose in a test": best
        / rates.divisor,
        f"{'for' if planned else 'if it takes'} {steps:,} steps of {wanted.optimizer}": (
            rates.travel / steps
        ),
        f"the most for {wanted.optimizer}": rates.most,
    }
    reason, rate = min(bounds.items(), key=lambda bound: bound[1])
    return float(f"{rate:.2g}"), reason


def _range_test(
    task: Train,
    drawn: Drawn,
    engine: Engine,
    rates: Rates,
    *,
    tick: Callable[[], None],
    steps: int,
) -> float:
    """The highest learning rate at which the loss was near its lowest, while the rate rose.

    A batch's loss is compared with its loss before training: batches differ more than steps.
    """
    steps = max(FEWEST_TEST_STEPS, min(TEST_STEPS, steps))
    before = []
    for inputs, target in islice(_endless(drawn, task.hyperparameters), steps):
        before.append(engine.evaluate(inputs, target)[0])
        tick()
    now, then, lowest = 0.0, 0.0, inf
    best = rates.first
    rising = np.geomspace(rates.first, rates.last, steps).tolist()
    batches = _endless(drawn, task.hyperparameters)
    for rate, old, (inputs, target) in zip(rising, before, batches, strict=False):
        engine.seed(task.hyperparameters.seed)
        now = SMOOTH * now + engine.train_batch(inputs, target)
        then = SMOOTH * then + old
        if not now <= GONE * then:
            break
        left = now / then if then else 1.0  # the loss was 0 from the start
        lowest = min(lowest, left)
        if left <= NEAR * lowest:
            best = rate
        engine.step(rate)
        tick()
    return best


def _endless(drawn: Drawn, wanted: Hyperparameters) -> Iterator[Batch]:
    """Batches of epoch after epoch."""
    epoch = 0
    while True:
        order = drawn.sampler.epoch(epoch, seed=wanted.seed)
        yield from drawn.samples.batches(order, batch_size=wanted.batch_size)
        epoch += 1
