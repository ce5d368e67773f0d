"""Figures that follow from how often each class is true, predicted, and rightly predicted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np

from storage.arrays import NDArray

Counts: TypeAlias = "NDArray[np.float64] | NDArray[np.int64]"


def in_columns(*parts: NDArray[Any]) -> NDArray[np.float64]:
    """(samples, 3 * classes), whose mean over samples the figures below take.

    parts: how often each class is rightly predicted, true, and predicted; each (samples, classes).
    """
    return np.concatenate(parts, axis=1).astype(np.float64)


def micro_f1(means: Counts) -> float:
    """F1 of all classes together; 0 where none is true or predicted."""
    right, true, predicted = means.reshape(3, -1).sum(axis=1)
    return float(2 * right / (true + predicted)) if true + predicted else 0.0


Whole: TypeAlias = "Callable[[Counts, Counts, Counts], Counts]"
"""What the right predictions of a class are a share of: from how many are right, are true, and are
predicted, a number or (classes,) each.
"""


def of_one(whole: Whole) -> Callable[[Counts, int], float]:
    """That share of one class, by its place; 0 without any."""

    def of_class(means: Counts, place: int) -> float:
        right, true, predicted = means.reshape(3, -1)[:, place]
        count = whole(right, true, predicted)
        return float(right / count) if count else 0.0

    return of_class


def mean_of(whole: Whole) -> Callable[[Counts], float]:
    """The mean of that share over the classes that have any; 0 without one."""

    def of_all(means: Counts) -> float:
        right, true, predicted = means.reshape(3, -1)
        counts = whole(right, true, predicted)
        occurs = counts > 0
        return float((right[occurs] / counts[occurs]).mean()) if occurs.any() else 0.0

    return of_all


WHOLES: tuple[Whole, ...] = (
    lambda _, true, __: true,
    lambda _, __, predicted: predicted,
    lambda _, true, predicted: (true + predicted) / 2,
    lambda right, true, predicted: true + predicted - right,
)
RECALL, PRECISION, F1, IOU = map(of_one, WHOLES)
balanced_accuracy, _, macro_f1, mean_iou = map(mean_of, WHOLES)
"""Sources: Brodersen et al. (2010), The Balanced Accuracy and Its Posterior Distribution; for both
means of F1 Yang (1999), An Evaluation of Statistical Approaches to Text Categorization; Everingham
et al. (2015), The Pascal Visual Object Classes Challenge: A Retrospective. For class indices the
mean F1 is scikit-learn's f1_score(average="macro") with its default labels.
"""
