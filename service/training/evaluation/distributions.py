"""Histograms for metrics, in memory that does not grow with the number of samples."""

from __future__ import annotations

from math import log1p

import numpy as np
from numpy.typing import NDArray

from service.training.engine import Array

BINS = 15
"""Bins of confidence. Source: Guo et al. (2017), On Calibration of Modern Neural Networks, 2."""
STEP = log1p(0.01)
"""Bin width of an error's logarithm: quantiles are accurate to one per cent."""
SMALLEST, LARGEST = 1e-30, 1e30
QUANTILES = (0.5, 0.9, 0.99)


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
