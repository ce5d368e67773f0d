"""Metrics of a validation pass that several tasks have, accumulated batch by batch."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.training.data.counting import counts
from service.training.engine import Array
from service.training.evaluation.distributions import Calibration, Quantiles
from service.training.tasks.task import PassMetrics, columns, ranks

MAX_CONFUSION_CLASSES = 100
"""With more classes, per-class metrics are left out: they would dwarf all other metrics."""
TOP = 5

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


class Classification(PassMetrics):
    """Metrics of class scores, at the positions that count.

    output: (batch, classes, …). target: (batch, …) int64. top_5_accuracy: the truth is among the
    five highest; None up to five classes. calibration_error: see `Calibration`. precision, recall,
    iou: per class, None for a class that was never predicted, never true, or neither.
    confusion_matrix: rows are the truth, columns the prediction. These four are None above
    MAX_CONFUSION_CLASSES. mean_iou: of the classes that have one.
    """

    def __init__(self, classes: int) -> None:
        self._true: Counts = np.zeros(classes, np.int64)
        self._predicted: Counts = np.zeros(classes, np.int64)
        self._hits: Counts = np.zeros(classes, np.int64)
        small = classes <= MAX_CONFUSION_CLASSES
        self._matrix: Counts | None = np.zeros((classes,) * 2, np.int64) if small else None
        self._calibration = Calibration()
        self._near = 0

    def weights(self, target: Array) -> Floats:
        shares: Floats = columns(counts(target)).mean(axis=1)
        return shares

    def update(self, output: Array, target: Array) -> None:
        classes = len(self._true)
        counted = counts(target).ravel()
        truth = target.ravel()[counted]
        scores = np.moveaxis(output, 1, -1).reshape(-1, classes)[counted]
        guess = scores.argmax(axis=1)
        self._calibration.update(scores, truth == guess)
        if classes > TOP:
            self._near += int((ranks(scores, truth) < TOP).sum())
        self._true += np.bincount(truth, minlength=classes)
        self._predicted += np.bincount(guess, minlength=classes)
        self._hits += np.bincount(truth[truth == guess], minlength=classes)
        if self._matrix is not None:
            pairs = np.bincount(truth * classes + guess, minlength=classes**2)
            self._matrix += pairs.reshape(classes, classes)

    def result(self) -> dict[str, Any]:
        total = int(self._true.sum())
        return {
            "accuracy": ratio(int(self._hits.sum()), total),
            "balanced_accuracy": self._balanced(),
            "macro_f1": macro_f1(self._hits, self._true, self._predicted),
            "mean_iou": self._mean_iou(),
            "top_5_accuracy": ratio(self._near, total) if len(self._true) > TOP else None,
            "calibration_error": self._calibration.error(),
            "precision": self._of_classes(self._predicted),
            "recall": self._of_classes(self._true),
            "iou": self._of_classes(self._union),
            "confusion_matrix": None if self._matrix is None else self._matrix.tolist(),
        }

    @property
    def _union(self) -> Counts:
        """Positions that are of a class, or predicted as it."""
        union: Counts = self._true + self._predicted - self._hits
        return union

    def _mean_iou(self) -> float | None:
        occurs = self._union > 0
        return float((self._hits[occurs] / self._union[occurs]).mean()) if occurs.any() else None

    def _balanced(self) -> float | None:
        occurs = self._true > 0
        return float((self._hits[occurs] / self._true[occurs]).mean()) if occurs.any() else None

    def _of_classes(self, counts: Counts) -> list[float | None] | None:
        if self._matrix is None:
            return None
        pairs = zip(self._hits.tolist(), counts.tolist(), strict=True)
        return [ratio(hits, count) for hits, count in pairs]


class OfNumbers(PassMetrics):
    """Metrics of labels that are numbers, some of which may be unknown."""

    def weights(self, target: Array) -> Floats:
        shares: Floats = columns(counts(target)).mean(axis=1)
        return shares


class MultiLabel(OfNumbers):
    """Accuracy and macro F1 of independent yes-or-no outputs, given as logits.

    output, target: (batch, …), one column per output; yes is a logit > 0, and a target ≥ 0.5.
    accuracy: share of single decisions that are right, not of samples right in all outputs.
    by_label: micro_f1 as well, and f1, precision and recall of each output, None if it was never
    yes.
    """

    def __init__(self, *, by_label: bool = False) -> None:
        self._by_label = by_label
        self._decisions = self._right = 0
        self._true: Counts | None = None
        self._predicted: Counts = np.zeros(0, np.int64)
        self._hits: Counts = np.zeros(0, np.int64)

    def update(self, output: Array, target: Array) -> None:
        known = columns(counts(target))
        truth = columns(target) >= 0.5
        guess = (columns(output) > 0) & known
        self._decisions += int(known.sum())
        self._right += int((known & (truth == guess)).sum())
        if self._true is None:
            self._true, self._predicted, self._hits = np.zeros((3, truth.shape[1]), np.int64)
        self._true += truth.sum(axis=0)
        self._predicted += guess.sum(axis=0)
        self._hits += (truth & guess).sum(axis=0)

    def result(self) -> dict[str, Any]:
        true = np.zeros(0, np.int64) if self._true is None else self._true
        result: dict[str, Any] = {
            "accuracy": ratio(self._right, self._decisions),
            "macro_f1": macro_f1(self._hits, true, self._predicted),
        }
        if self._by_label:
            hits, both = 2 * self._hits, true + self._predicted
            if self._decisions:  # as the gate has it, 0 where no label is true or given
                result["macro_f1"] = result["macro_f1"] or 0.0
            result["micro_f1"] = ratio(int(hits.sum()), int(both.sum()) or self._decisions)
            of_each = {"f1": (hits, both), "precision": (self._hits, self._predicted)}
            for name, (part, whole) in (of_each | {"recall": (self._hits, true)}).items():
                pairs = zip(part.tolist(), whole.tolist(), strict=True)
                result[name] = [ratio(*pair) for pair in pairs]
        return result


class Regression(OfNumbers):
    """Mean absolute error, its quantiles, and R², the mean over the outputs whose truth varies.

    output, target: (batch, …), one column per output. r2 is None if no truth varies.
    error_quantiles: share of all numbers → the absolute error that they stay within.
    by_label: mae_by_label, rmse_by_label and r2_by_label as well, those of each output; None where
    no truth is known, or varies.
    The variance is merged batch by batch, which preserves precision if the mean is large.
    Source: Chan, Golub, LeVeque (1979), Updating formulae for computing sample variances.
    """

    def __init__(self, *, by_label: bool = False) -> None:
        self._by_label = by_label
        self._count: Counts | int = 0
        self._mean: Floats | float = 0.0
        self._total: Floats | float = 0.0
        self._residual: Floats | float = 0.0
        self._absolute: Floats | float = 0.0
        self._quantiles = Quantiles()

    def update(self, output: Array, target: Array) -> None:
        known = columns(counts(target))
        truth = np.where(known, columns(target), 0.0).astype(np.float64)
        error = np.where(known, truth - columns(output), 0.0)
        added, count = known.sum(axis=0), self._count + known.sum(axis=0)
        mean = truth.sum(axis=0) / np.maximum(added, 1)
        shift = mean - self._mean
        within = np.square(known * (truth - mean)).sum(axis=0)
        share = added / np.maximum(count, 1)
        self._total = self._total + within + shift**2 * (self._count * share)
        self._mean = self._mean + shift * share
        self._residual = self._residual + np.square(error).sum(axis=0)
        self._absolute = self._absolute + np.abs(error).sum(axis=0)
        self._quantiles.update(np.abs(error)[known])
        self._count = count

    def result(self) -> dict[str, Any]:
        count = int(np.sum(self._count))
        if count == 0:
            return {"mae": None, "rmse": None, "r2": None, "error_quantiles": None}
        total, residual = np.atleast_1d(self._total), np.atleast_1d(self._residual)
        varies = total > 0
        r2 = float((1 - residual[varies] / total[varies]).mean()) if varies.any() else None
        return {
            "mae": float(np.sum(self._absolute) / count),
            "rmse": float(np.sqrt(np.sum(residual) / count)),
            "r2": r2,
            "error_quantiles": self._quantiles.result(),
            **(self._of_labels(total, residual) if self._by_label else {}),
        }

    def _of_labels(self, total: Floats, residual: Floats) -> dict[str, list[float | None]]:
        shares = {
            "mae": (np.asarray(self._absolute), self._count),
            "rmse": (residual, self._count),
            "r2": (residual, total),
        }
        finish: dict[str, Callable[[float], float]] = {
            "mae": float,
            "rmse": math.sqrt,
            "r2": lambda share: 1 - share,
        }
        return {
            f"{name}_by_label": [
                finish[name](part / whole) if whole > 0 else None
                for part, whole in zip(parts.tolist(), np.asarray(wholes).tolist(), strict=True)
            ]
            for name, (parts, wholes) in shares.items()
        }


def macro_f1(hits: Counts, true: Counts, predicted: Counts) -> float | None:
    """Mean F1 over the classes that occur in truth or predictions.

    For class indices this is scikit-learn's f1_score(average="macro") with its default labels.
    None if there is no such class.
    """
    occurs = (true + predicted) > 0
    if not occurs.any():
        return None
    return float((2 * hits[occurs] / (true + predicted)[occurs]).mean())


def ratio(part: int, whole: int) -> float | None:
    return part / whole if whole else None
