"""Average precision of boxes, as COCO has it: pycocotools' COCOeval, area `all`, maxDets 100.

Source: https://cocodataset.org/#detection-eval
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from service.training.engine import Array
from service.training.tasks.boxes import MOST_FOUND, SIDES, FoundBoxes, found, overlaps
from service.training.tasks.task import PassMetrics, PerSample
from storage.arrays import NDArray

Floats: TypeAlias = "NDArray[np.float64]"

LOWEST, HIGHEST, THRESHOLDS = 0.5, 0.95, 10
"""Intersections over union from which a box is right, and their number."""
RECALLS = 101
PARTS = 3
"""Numbers of a box in a row: its probability, its class, and a bit for each threshold at which it
is right."""


def rows_of(output: Array, target: Array) -> PerSample:
    """(batch, 3 * 100 + classes): of each photo its predicted boxes, likeliest first, class -1 for
    none, and how many true boxes of each class it has.
    """
    pairs = zip(output, target, strict=True)
    return np.stack([matched(found(maps), boxes, len(maps) - SIDES) for maps, boxes in pairs])


def matched(objects: FoundBoxes, truth: NDArray[Any], classes: int) -> Floats:
    """A row of the above. truth: (n, 5)."""
    boxes = np.full((MOST_FOUND, PARTS), -1.0)
    count, truth = len(objects.classes), truth[truth[:, 4] >= 0]
    boxes[:count] = np.stack([objects.probabilities, objects.classes, np.zeros(count)], axis=1)
    for kind in np.unique(objects.classes).tolist():
        places = np.flatnonzero(objects.classes == kind)
        of_kind = truth[truth[:, 4] == kind, :4].astype(np.float64)
        boxes[places, 2] = _right(overlaps(objects.boxes[places], of_kind))
    counts = np.bincount(truth[:, 4].astype(np.int64), minlength=classes)
    return np.concatenate([boxes.ravel(), counts])


def _right(shared: Floats) -> NDArray[np.int64]:
    """(n,): the bits of boxes, each of which takes the true one that it shares most with, of those
    that are left. shared: (n, true ones), the likeliest box first.
    """
    bits = np.zeros(len(shared), np.int64)
    thresholds = np.linspace(LOWEST, HIGHEST, THRESHOLDS)
    free = np.ones((THRESHOLDS, shared.shape[1]), bool)
    for at in range(len(shared) if shared.shape[1] else 0):
        left = np.where(free, shared[at], -1.0)
        best = left.shape[1] - 1 - left[:, ::-1].argmax(axis=1)  # the last of equal ones
        hits = np.flatnonzero(left[np.arange(len(left)), best] >= thresholds)
        free[hits, best[hits]] = False
        bits[at] = (1 << hits).sum()
    return bits


def average_precisions(rows: PerSample, weights: Floats, *, thresholds: int) -> Floats:
    """(sets, classes, thresholds): NaN for a class that no photo has.

    rows: of photos. weights: (sets, photos), how often each photo is in a set. thresholds: how many
    of them, from the lowest.
    """
    split = MOST_FOUND * PARTS
    boxes = rows[:, :split].reshape(-1, MOST_FOUND, PARTS)
    photo, place = np.nonzero(boxes[:, :, 1] >= 0)
    chances, kinds, bits = boxes[photo, place].T
    order = np.argsort(-chances, kind="stable")
    bits = bits.astype(np.int64)
    true = weights @ rows[:, split:]
    averages = np.full((*true.shape, thresholds), np.nan)
    for kind in range(true.shape[1]):
        chosen = order[kinds[order] == kind]
        times = weights[:, photo[chosen]]
        seen = times.cumsum(axis=1)
        for number in range(thresholds):
            hits = np.flatnonzero(bits[chosen] >> number & 1)
            precision = times[:, hits].cumsum(axis=1) / np.maximum(seen[:, hits], 1)
            averages[:, kind, number] = _average(times[:, hits], precision, true[:, kind])
    averages[true == 0] = np.nan
    return averages


def _average(times: Floats, precision: Floats, true: Floats) -> Floats:
    """(sets,). times, precision: (sets, n), how often each right box is in a set, and the precision
    down to it, which others lower, so that none of them is a maximum. true: (sets,).
    """
    best = np.maximum.accumulate(precision[:, ::-1], axis=1)[:, ::-1]
    recall = times.cumsum(axis=1) / np.maximum(true, 1)[:, None]
    reached = np.searchsorted(np.linspace(0, 1, RECALLS), recall, side="right")
    means: Floats = (np.diff(reached, axis=1, prepend=0) * best).sum(axis=1) / RECALLS
    return means


def mean_precision(
    rows: PerSample, weights: Floats, *, thresholds: int = THRESHOLDS, kind: int | None = None
) -> Floats:
    """(sets,): the mean over thresholds, and classes, or of one class; 0 without a true box."""
    precisions = average_precisions(rows, weights, thresholds=thresholds)
    precisions = precisions if kind is None else precisions[:, kind : kind + 1]
    there = ~np.isnan(precisions)
    summed = np.where(there, precisions, 0).sum(axis=(1, 2))
    means: Floats = summed / np.maximum(there.sum(axis=(1, 2)), 1)
    return means


class BoxMetrics(PassMetrics):
    """map, map_50: the mean over classes that occur. ap: of each class over all thresholds, None
    for one that does not occur. boxes: how many there are.
    """

    def __init__(self) -> None:
        self._rows: list[PerSample] = []

    def update(self, output: Array, target: Array) -> None:
        self._rows.append(rows_of(output, target))

    def result(self) -> dict[str, Any]:
        if not self._rows:
            return {"map": None, "map_50": None, "ap": None, "boxes": 0}
        rows = np.concatenate(self._rows)
        once = np.ones((1, len(rows)))
        (of_classes,) = average_precisions(rows, once, thresholds=THRESHOLDS)
        there = ~np.isnan(of_classes[:, 0])
        means = of_classes[there].mean(axis=1)
        mean = iter(means.tolist())
        return {
            "map": float(means.mean()) if len(means) else None,
            "map_50": float(of_classes[there, 0].mean()) if len(means) else None,
            "ap": [next(mean) if occurs else None for occurs in there.tolist()],
            "boxes": int(rows[:, MOST_FOUND * PARTS :].sum()),
        }
