"""Metrics of a validation pass that several tasks have, accumulated batch by batch."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.training.data.counting import counts
from service.training.engine import Array
from service.training.tasks.by_class import balanced_accuracy, macro_f1, mean_iou, micro_f1
from service.training.tasks.task import PassMetrics, columns, ranks

MAX_CONFUSION_CLASSES = 100
"""With more classes, per-class metrics are left out: they would dwarf all other metrics."""
TOP = 5
BINS = 15
"""Bins of confidence. Source: Guo et al. (2017), On Calibration of Modern Neural Networks, 2."""
STEP = math.log1p(0.01)
"""Bin width of an error's logarithm: quantiles are accurate to one per cent."""
SMALLEST, LARGEST = 1e-30, 1e30
QUANTILES = (0.5, 0.9, 0.99)

Counts = NDArray[np.int64]
Floats = NDArray[np.float64]


class Calibration:
    """The difference between confidence and accuracy, by the softmax of class scores."""

    def __init__(self) -> None:
        self._counts = np.zeros(BINS, np.int64)
        self._right = np.zeros(BINS, np.int64)
        self._confidence = np.zeros(BINS)

    def update(self, scores: Array, right: NDArray[np.bool_]) -> None:
        """scores: (n, classes). right: (n,), whether the true class has the highest score."""
        with np.errstate(invalid="ignore"):
            above = scores.astype(np.float64) - scores.max(axis=1, keepdims=True)
        confidence = 1 / np.exp(np.nan_to_num(above, nan=0.0)).sum(axis=1)
        bins = np.minimum((confidence * BINS).astype(np.int64), BINS - 1)
        self._counts += np.bincount(bins, minlength=BINS)
        self._right += np.bincount(bins[right], minlength=BINS)
        self._confidence += np.bincount(bins, weights=confidence, minlength=BINS)

    def error(self) -> float | None:
        """The expected calibration error, from 0 to 1; None without samples."""
        total = self._counts.sum()
        return float(np.abs(self._right - self._confidence).sum() / total) if total else None


class Quantiles:
    """Quantiles of absolute errors."""

    def __init__(self) -> None:
        bins = int((np.log(LARGEST) - np.log(SMALLEST)) / STEP) + 2
        self._counts = np.zeros(bins, np.int64)

    def update(self, errors: Array) -> None:
        """errors: of any shape, at least 0."""
        sizes = np.clip(np.nan_to_num(errors.ravel(), nan=LARGEST), SMALLEST, LARGEST)
        bins = np.ceil((np.log(sizes) - np.log(SMALLEST)) / STEP).astype(np.int64)
        self._counts += np.bincount(bins, minlength=len(self._counts))

    def result(self) -> dict[str, float] | None:
        """Share of errors → the error that they stay below; None without errors."""
        total = int(self._counts.sum())
        if not total:
            return None
        reached = np.searchsorted(self._counts.cumsum(), np.ceil(np.multiply(QUANTILES, total)))
        values = np.where(reached == 0, 0.0, SMALLEST * np.exp(STEP * reached))
        return dict(zip(map(str, QUANTILES), values.tolist(), strict=True))


class OfKnown(PassMetrics):
    """Metrics of labels of which a part may not count."""

    def weights(self, target: Array) -> Floats:
        shares: Floats = columns(counts(target)).mean(axis=1)
        return shares


class Classification(OfKnown):
    """Metrics of class scores, at the positions that count.

    output: (batch, classes, …). target: (batch, …) int64. top_5_accuracy: the truth is among the
    five highest; None up to five classes. calibration_error: see `Calibration`. precision, recall,
    iou: per class, None for a class that was never predicted, never true, or neither.
    confusion_matrix: rows are the truth, columns the prediction. These four are None above
    MAX_CONFUSION_CLASSES. mean_iou: of the classes that have one.
    """

    def __init__(self, classes: int) -> None:
        self._classes = classes
        self._counts: Counts = np.zeros((3, classes), np.int64)
        small = classes <= MAX_CONFUSION_CLASSES
        self._matrix: Counts | None = np.zeros((classes,) * 2, np.int64) if small else None
        self._calibration = Calibration()
        self._near = 0

    def update(self, output: Array, target: Array) -> None:
        classes = self._classes
        counted = counts(target).ravel()
        truth = target.ravel()[counted]
        scores = np.moveaxis(output, 1, -1).reshape(-1, classes)[counted]
        guess = scores.argmax(axis=1)
        self._calibration.update(scores, truth == guess)
        if classes > TOP:
            self._near += int((ranks(scores, truth) < TOP).sum())
        of_each = (truth[truth == guess], truth, guess)
        self._counts += [np.bincount(chosen, minlength=classes) for chosen in of_each]
        if self._matrix is not None:
            pairs = np.bincount(truth * classes + guess, minlength=classes**2)
            self._matrix += pairs.reshape(classes, classes)

    def result(self) -> dict[str, Any]:
        hits, true, predicted = self._counts
        total = int(true.sum())
        return {
            "accuracy": ratio(int(hits.sum()), total),
            "balanced_accuracy": balanced_accuracy(self._counts) if total else None,
            "macro_f1": macro_f1(self._counts) if total else None,
            "mean_iou": mean_iou(self._counts) if total else None,
            "top_5_accuracy": ratio(self._near, total) if self._classes > TOP else None,
            "calibration_error": self._calibration.error(),
            "precision": self._hits_of(predicted),
            "recall": self._hits_of(true),
            "iou": self._hits_of(true + predicted - hits),
            "confusion_matrix": None if self._matrix is None else self._matrix.tolist(),
        }

    def _hits_of(self, wholes: Counts) -> list[float | None] | None:
        return None if self._matrix is None else ratios(self._counts[0], wholes)


class MultiLabel(OfKnown):
    """Accuracy and macro F1 of independent yes-or-no outputs, given as logits.

    output, target: (batch, …), one column per output; yes is a logit > 0, and a target ≥ 0.5.
    accuracy: share of single decisions that are right, not of samples right in all outputs.
    by_label: micro_f1 as well, and f1, precision and recall of each output, None if it was never
    yes.
    """

    def __init__(self, *, by_label: bool = False) -> None:
        self._by_label = by_label
        self._decisions = self._right = 0
        self._counts: Counts = np.zeros((3, 0), np.int64)

    def update(self, output: Array, target: Array) -> None:
        known = columns(counts(target))
        truth = columns(target) >= 0.5
        guess = (columns(output) > 0) & known
        self._decisions += int(known.sum())
        self._right += int((known & (truth == guess)).sum())
        counted = np.array([part.sum(axis=0) for part in (truth & guess, truth, guess)])
        self._counts = self._counts + counted if self._counts.size else counted

    def result(self) -> dict[str, Any]:
        hits, true, predicted = self._counts
        # As the gate has it, labels that are neither true nor given have the F1 0.
        is_known = self._decisions > 0 if self._by_label else bool((true + predicted).any())
        result: dict[str, Any] = {
            "accuracy": ratio(self._right, self._decisions),
            "macro_f1": macro_f1(self._counts) if is_known else None,
        }
        if self._by_label:
            result["micro_f1"] = micro_f1(self._counts) if is_known else None
            result["f1"] = ratios(2 * hits, true + predicted)
            result |= {"precision": ratios(hits, predicted), "recall": ratios(hits, true)}
        return result


class Regression(OfKnown):
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
        count = np.asarray(self._count)
        squares, unexplained = ratios(residual, count), ratios(residual, total)
        return {
            "mae_by_label": ratios(np.asarray(self._absolute), count),
            "rmse_by_label": [None if each is None else math.sqrt(each) for each in squares],
            "r2_by_label": [None if each is None else 1 - each for each in unexplained],
        }


def ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None


def ratios(parts: Counts | Floats, wholes: Counts | Floats) -> list[float | None]:
    """Of each class, or each number of a label."""
    return [ratio(*pair) for pair in zip(parts.tolist(), wholes.tolist(), strict=True)]
