"""Moments of features, and the warnings they give rise to."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from storage.arrays import NDArray

MIN_ROWS = 20
"""Minimum number of rows to judge a feature by."""
MAX_FEATURES = 1000
LARGE = 1000.0
"""Models train best on values of about 1."""

Floats: TypeAlias = "NDArray[np.float64]"


class Moments:
    """Count, mean and bounds of each feature, in one pass."""

    def __init__(self, features: int) -> None:
        self.count = 0
        self._sum = np.zeros(features)
        self.low, self.high = np.full(features, np.inf), np.full(features, -np.inf)

    def add(self, rows: NDArray[np.generic]) -> None:
        """rows: (n, features)."""
        self.count += len(rows)
        with np.errstate(over="ignore"):
            self._sum += rows.sum(axis=0, dtype=np.float64)
        self.low = np.minimum(self.low, rows.min(axis=0))
        self.high = np.maximum(self.high, rows.max(axis=0))

    @property
    def mean(self) -> Floats:
        return np.asarray(self._sum / self.count)


def mean_and_std(rows: NDArray[Any]) -> tuple[Floats, Floats]:
    """Mean and standard deviation of each feature, in float64, without copying the rows.

    rows: (n, features).
    """
    with np.errstate(over="ignore", invalid="ignore"):
        mean = rows.mean(axis=0, dtype=np.float64)
        squares = np.einsum("ij,ij->j", rows, rows, dtype=np.float64)
        return mean, np.sqrt(np.maximum(squares / len(rows) - np.square(mean), 0.0))
