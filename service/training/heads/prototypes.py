"""A head of nearest class means, as rows of the model's linear layer.

Source: Snell, Swersky, Zemel (2017), Prototypical Networks for Few-shot Learning, NeurIPS, 2.4: of
squared Euclidean distances, -s |x - m|² is 2 s m·x - s |m|² plus a number that is the same for all
classes. The scale s, which is 1 there, is fitted: it affects probabilities, not predicted classes.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from service.training.data.batches import Batches, Indices
from service.training.engines.manifest import ClassHead
from service.training.heads.features import Floats, HeadFeatures, spread

MOST_FITTED = 1024
"""Maximum number of samples for fitting the scale."""
LOWEST, HIGHEST, HALVINGS = 1e-3, 1e3, 50
"""Bounds of the scale, times the mean squared distance, and steps of its search."""

Doubles = NDArray[np.float64]


class Prototypes(Struct, frozen=True):
    """means: (classes, width). mass: (classes,), total sample weight of each, 0 without samples."""

    means: Doubles
    mass: Doubles

    @classmethod
    def of(
        cls,
        features: HeadFeatures,
        samples: Batches,
        chosen: Indices,
        *,
        weights: Doubles,
        classes: int,
    ) -> Prototypes:
        """The means of the chosen samples. weights: of all samples, at least 0."""
        mass, sums = np.zeros(classes), None
        for rows, some in features.parts(samples, chosen):
            sums = np.zeros((classes, rows.shape[1])) if sums is None else sums
            labels = samples.labels[some]
            np.add.at(sums, labels, rows * weights[some, None])
            np.add.at(mass, labels, weights[some])
        assert sums is not None
        return cls(sums / np.where(mass > 0, mass, 1)[:, None], mass)

    @property
    def known(self) -> Indices:
        """Classes that have samples."""
        return np.flatnonzero(self.mass > 0)

    def distances(self, rows: Floats) -> Doubles:
        """(rows, known) squared."""
        means = self.means[self.known]
        middle = means.mean(axis=0)
        away, means = rows - middle, means - middle  # precision is lost far from 0
        squares = (away**2).sum(axis=1)[:, None] - 2 * away @ means.T + (means**2).sum(axis=1)
        return np.asarray(np.maximum(squares, 0.0))

    def without_own(self, rows: Floats, labels: Indices, weights: Doubles) -> Doubles:
        """Like `distances`, but to a row's own class mean without that row.

        Infinite if the class has no other sample.
        """
        distances = self.distances(rows)
        own = np.searchsorted(self.known, labels)
        rest = self.mass[labels] - weights
        alone = rest <= 1e-9 * self.mass[labels]
        stretch = self.mass[labels] / np.where(alone, 1, rest)
        place = np.arange(len(rows)), own
        distances[place] = np.where(alone, np.inf, distances[place] * stretch**2)
        return distances

    def scale(self, features: HeadFeatures, samples: Batches, weights: Doubles) -> float:
        """The scale that maximizes the likelihood of samples, each left out of its class mean."""
        chosen = spread(np.flatnonzero(weights > 0), MOST_FITTED)
        labels = samples.labels[chosen]
        distances = self.without_own(features.of(samples, chosen), labels, weights[chosen])
        whole = np.isfinite(distances).all(axis=1)
        if not whole.any():
            between = self.distances(self.means[self.known].astype(np.float32)).mean()
            return float(1 / between) if between > 0 else 1.0
        own = np.searchsorted(self.known, labels[whole])
        smoothing = 1 / (1 + int(whole.sum()))  # as if one more sample were of all classes
        return likeliest_scale(distances[whole], own, weights[chosen][whole], smoothing=smoothing)

    def write(self, tensors: Mapping[str, Floats], head: ClassHead, scale: float) -> None:
        """Set the rows of the known classes.

        Their mean does not change, so that they stay comparable with classes that keep their rows;
        if there are none, the mean is 0.
        """
        known, assigned = self.known, np.moveaxis(tensors[head.weight], head.axis, 0)
        rows = assigned.reshape(len(assigned), -1)  # a convolution with a kernel of 1 has more axes
        assert head.bias is not None
        bias = tensors[head.bias].reshape(-1)
        means = self.means[known]
        middle, norms = means.mean(axis=0), (means**2).sum(axis=1)
        added, shift = 2 * scale * (means - middle), -scale * (norms - norms.mean())
        if len(known) < len(rows):
            added, shift = added + rows[known].mean(axis=0), shift + bias[known].mean()
        for place, index in enumerate(known.tolist()):
            assigned[index] = added[place].reshape(assigned[index].shape)
            bias[index] = shift[place]


def likeliest_scale(
    distances: Doubles, own: Indices, weights: Doubles, *, smoothing: float = 0.0
) -> float:
    """The s that maximizes the likelihood of softmax(-s distances); the loss is convex.

    own: column of each row's own class. smoothing: share of a row that belongs to all classes
    equally, so that rows without errors do not drive s to its maximum.
    """
    mean = float(distances.mean()) or 1.0
    low, high = np.log(LOWEST / mean), np.log(HIGHEST / mean)
    nearest = distances.min(axis=1, keepdims=True)
    truth = (1 - smoothing) * distances[np.arange(len(own)), own]
    truth += smoothing * distances.mean(axis=1)
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        shares = np.exp(-np.exp(middle) * (distances - nearest))
        expected = (shares * distances).sum(axis=1) / shares.sum(axis=1)
        if float(weights @ (truth - expected)) < 0:
            low = middle
        else:
            high = middle
    return float(np.exp((low + high) / 2))
