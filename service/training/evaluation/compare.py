"""Carries out the task `Compare`: two versions, and the samples on which they differ."""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from service.training.data.batches import Indices
from service.training.engine import Array
from service.training.errors import ExportMismatch
from service.training.evaluation.evaluate import (
    ModelComparer,
    Side,
    finite_or_none,
)
from service.training.evaluation.inference import InferenceModel, Unusable
from service.training.protocol.messages.comparison import ChangedSample, Compare, Compared
from service.training.protocol.pipe import Heartbeat, Pipe
from service.training.tasks import TASKS
from service.training.tasks.task import PerSample, columns

NUMBERS_TOLD = 8
"""How many numbers of a label or prediction are reported, from the first."""
_METRIC = {"class": "loss", "share": "accuracy", "absolute": "mae", "loss": "loss"}
"""The per-sample metric from which the error is taken; for `share`, the error is 1 minus it."""


class Answers(Struct, frozen=True):
    """A version's results on the samples. errors, is_wrong: (samples,); no error if nothing of it
    counts, as of an anomalous sample; of several rows, such as a long text, their mean by what
    counts of each. told: (samples, …).
    """

    metrics: dict[str, Any]
    errors: PerSample
    is_wrong: NDArray[np.bool_]
    told: Array | None


def compare(task: Compare, pipe: Pipe) -> Compared:
    """Raises ExportMismatch if a version cannot be run, Interrupted if it must end."""
    comparer = ModelComparer(
        task.measurement,
        threads=task.limits.threads,
        tick=Heartbeat(pipe),
        model=task.candidate,
        classes=task.candidate_classes,
        baseline=task.baseline,
        baseline_classes=task.baseline_classes,
        baseline_measurement=task.baseline_measurement,
    )
    chosen = comparer.known()
    ids, first = np.unique(comparer.dataset.ids[chosen], return_index=True)
    try:
        before = answers(comparer, task, task.baseline, comparer.theirs, chosen)
        after = answers(comparer, task, task.candidate, comparer.ours, chosen)
    except Unusable as error:
        raise ExportMismatch(f"one of the versions is of no use: {error}") from error
    what = task.measurement
    by = TASKS[what.loss].compared_by(what.signature.target)
    grown = after.errors - before.errors
    worse, better = grown > 0, grown < 0
    if by == "class":
        worse, better = after.is_wrong & ~before.is_wrong, before.is_wrong & ~after.is_wrong

    def told(which: NDArray[np.bool_]) -> tuple[ChangedSample, ...]:
        places = np.flatnonzero(which)
        most = places[np.argsort(-np.abs(grown[places]), kind="stable")][: task.most]
        return tuple(_changed(comparer, chosen[first], before, after, int(at)) for at in most)

    return Compared(
        samples=len(ids),
        left_out=comparer.dataset.sample_count() - len(ids),
        by=by,
        before=before.metrics,
        after=after.metrics,
        worse=int(worse.sum()),
        better=int(better.sum()),
        worse_samples=told(worse),
        better_samples=told(better),
    )


def answers(
    comparer: ModelComparer, task: Compare, path: str, side: Side, chosen: Indices
) -> Answers:
    """The results of the version at a path. Raises Unusable."""
    what = side.measurement
    if what.own_loss is not None:
        own = comparer.measure_own_loss(what.own_loss, path, chosen, side)
        return Answers(own.metrics, own.per_sample, np.empty(0, bool), None)
    model = InferenceModel(path, what, threads=task.limits.threads, classes=side.classes)
    learned = TASKS[what.loss]
    by = learned.compared_by(what.signature.target)
    loss_of, error_of = (learned.metric(name).of_samples for name in ("loss", _METRIC[by]))
    metrics, rows = learned.pass_metrics(what.signature.target), [np.empty((3, 0))]
    metrics.read(model.metadata)
    wrong, told = [np.empty(0, bool)], []
    for inputs, truth in comparer.batches(chosen, side):
        output = model.run(inputs)
        metrics.update(output, truth)
        error = error_of(output, truth)
        error = 1 - error if by == "share" else error
        rows.append(np.array([metrics.weights(truth), loss_of(output, truth), error]))
        if by == "class":
            predicted = columns(output.argmax(axis=1))[:, 0]
            wrong.append(predicted != columns(truth)[:, 0])
            told.append(predicted)
        elif by == "absolute":
            told.append(columns(output)[:, :NUMBERS_TOLD])
        comparer.tick(len(truth))
    weights, losses, errors = np.concatenate(rows, axis=1)
    ids, which = np.unique(side.dataset.ids[comparer.places(chosen, side)], return_inverse=True)
    summed, counted = (np.bincount(which, values) for values in (errors * weights, weights))
    loss = float(losses @ weights) / (float(weights.sum()) or 1.0)
    mean = {"samples": len(ids), "loss": loss, **metrics.result()}
    return Answers(
        metrics={k: finite_or_none(v) for k, v in mean.items()} if len(ids) else {},
        errors=np.divide(summed, counted, out=np.zeros(len(ids)), where=counted > 0),
        is_wrong=np.concatenate(wrong),
        told=np.concatenate(told) if told else None,
    )


def _changed(
    comparer: ModelComparer, chosen: Indices, before: Answers, after: Answers, at: int
) -> ChangedSample:
    place = chosen[at]
    is_told = before.told is not None
    return ChangedSample(
        id=int(comparer.dataset.ids[place]),
        label=_plain(comparer.dataset.labels[place]) if is_told else None,
        before=None if before.told is None else _plain(before.told[at]),
        after=None if after.told is None else _plain(after.told[at]),
        before_error=finite_or_none(float(before.errors[at])),
        after_error=finite_or_none(float(after.errors[at])),
    )


def _plain(value: Any) -> Any:
    """A class, or the first numbers."""
    numbers = np.ravel(value)[:NUMBERS_TOLD]
    if numbers.dtype.kind == "f":
        return [finite_or_none(float(number)) for number in numbers]
    return int(numbers[0])
