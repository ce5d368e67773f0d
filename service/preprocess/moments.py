"""Moments of features, and the warnings they give rise to."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

MIN_ROWS = 20
"""Fewer rows say little of a feature."""
MAX_FEATURES = 1000
LARGE = 1000.0
"""Models train best on values of about 1."""

Floats = NDArray[np.float64]


class Moments:
    """Count, mean, standard deviation and bounds of each feature, in one pass."""

    def __init__(self, features: int) -> None:
        self.count = 0
        self._sum, self._squares = np.zeros(features), np.zeros(features)
        self.low, self.high = np.full(features, np.inf), np.full(features, -np.inf)

    def add(self, rows: NDArray[np.generic]) -> None:
        """rows: (n, features)."""
        values = rows.astype(np.float64)
        self.count += len(values)
        with np.errstate(over="ignore"):
            self._sum += values.sum(axis=0)
            self._squares += np.einsum("ij,ij->j", values, values)
        self.low = np.minimum(self.low, rows.min(axis=0))
        self.high = np.maximum(self.high, rows.max(axis=0))

    @property
    def mean(self) -> Floats:
        return np.asarray(self._sum / self.count)

    @property
    def std(self) -> Floats:
        with np.errstate(over="ignore", invalid="ignore"):
            variance = self._squares / self.count - np.square(self.mean)
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)))
