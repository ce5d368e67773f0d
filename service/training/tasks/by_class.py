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


def macro_f1(means: Counts) -> float:
    """Mean F1 of the classes that are true or predicted of any sample; 0 without any. For class
    indices it is scikit-learn's f1_score(average="macro") with its default labels.

    Source of both means: Yang (1999), An Evaluation of Statistical Approaches to Text
    Categorization.
    """
    right, true, predicted = means.reshape(3, -1)
    occurs = true + predicted > 0
    return float((2 * right[occurs] / (true + predicted)[occurs]).mean()) if occurs.any() else 0.0


def mean_iou(means: Counts) -> float:
    """Mean intersection over union of the classes that are true or predicted of any sample; 0
    without any.

    Source: Everingham et al. (2015), The Pascal Visual Object Classes Challenge: A Retrospective.
    """
    right, true, predicted = means.reshape(3, -1)
    union = true + predicted - right
    occurs = union > 0
    return float((right[occurs] / union[occurs]).mean()) if occurs.any() else 0.0


def share_of(part: int, *whole: int) -> Callable[[Counts, int], float]:
    """A figure of one class: its counts at `part`, as a share of the mean of those at `whole`; 0
    without any. Places are those of `in_columns`.
    """

    def of_class(means: Counts, place: int) -> float:
        sums = means.reshape(3, -1)[:, place]
        count = sums[list(whole)].mean()
        return float(sums[part] / count) if count else 0.0

    return of_class


RECALL, PRECISION, F1 = share_of(0, 1), share_of(0, 2), share_of(0, 1, 2)


def iou(means: Counts, place: int) -> float:
    """Intersection over union of one class; 0 where it is neither true nor predicted."""
    right, true, predicted = means.reshape(3, -1)[:, place]
    union = true + predicted - right
    return float(right / union) if union else 0.0


def balanced_accuracy(means: Counts) -> float:
    """Mean recall of the classes that are true of any sample; 0 without any.

    Source: Brodersen et al. (2010), The Balanced Accuracy and Its Posterior Distribution.
    """
    right, true, _ = means.reshape(3, -1)
    occurs = true > 0
    return float((right[occurs] / true[occurs]).mean()) if occurs.any() else 0.0
