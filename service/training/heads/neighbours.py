"""A head of nearest neighbours: the features of samples and their labels, in the exported model.

Votes are weighted by the inverse of distance: Dudani (1976), The Distance-Weighted
k-Nearest-Neighbor Rule. One more vote is spread over all classes, so that no logit is infinite.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from msgspec import Struct
from numpy.typing import NDArray

from service.training.data.batches import Batches, Indices
from service.training.engine import Array
from service.training.export.join import replace_output
from service.training.heads.features import Floats, HeadFeatures, spread
from service.training.heads.prototypes import Doubles

MOST_ROWS, MOST_BYTES = 2048, 16 << 20
"""Limits on the samples whose features a version stores."""
NEAR = 1e-4
"""Minimum squared distance, as a share of the mean squared distance from the centre of all."""
EQUALLY_NEAR = 1e-5
"""Samples vote if they are farther than the k-th by no more than this share of the squared lengths:
rounding decides which of equally near ones are first, and is a hundredth of it.
"""
PREFIX = "hone.knn."


class Neighbours(Struct, frozen=True):
    """rows: (samples, width), relative to `middle`. votes: (samples, classes), a sample's weight in
    the column of its class. k: number of neighbours that vote, with all as near as the last.
    """

    features: HeadFeatures
    rows: Floats
    votes: Floats
    middle: Floats
    k: int

    @classmethod
    def of(
        cls, features: HeadFeatures, samples: Batches, weights: Doubles, *, classes: int, k: int
    ) -> Neighbours:
        """From samples that have a weight, as many as may be stored, balanced by class."""
        there = np.flatnonzero(weights > 0)
        width = features.of(samples, there[:1]).shape[1]
        most = max(k, min(MOST_ROWS, MOST_BYTES // (4 * width)))
        kept = evenly(there, samples.labels[there], most)
        rows = features.of(samples, kept)
        middle = rows.mean(axis=0)
        votes = np.zeros((len(kept), classes), np.float32)
        votes[np.arange(len(kept)), samples.labels[kept]] = weights[kept]
        return cls(features, rows - middle, votes, middle, min(k, len(kept)))

    def warnings(self, samples: int) -> tuple[str, ...]:
        """samples: how many there were to store."""
        if len(self.rows) == samples:
            return ()
        size = self.rows.nbytes / 2**20
        return (
            f"the version holds {len(self.rows):,} of {samples:,} samples ({size:.1f} MiB), evenly"
            " by class",
        )

    def output(self, inputs: Sequence[Array], _: Array) -> Array:
        """The logits: the logarithm of each class's share of the votes. (batch, classes)."""
        away = self.features.read(inputs) - self.middle
        nearness = away @ (2 * self.rows.T) - self._norms
        length = (away**2).sum(axis=1, keepdims=True)
        last = -np.partition(-nearness, self.k - 1, axis=1)[:, self.k - 1 : self.k]
        chosen = nearness >= last - EQUALLY_NEAR * (length + self._norms.mean())
        pull = 1 / np.sqrt(np.maximum(length - nearness, self._nearest))
        votes = np.where(chosen, pull, 0) @ self.votes
        logits: NDArray[Any] = np.log(
            votes / votes.sum(axis=1, keepdims=True) * self._own + self._spread
        )
        return logits.astype(np.float32)

    def attach(self, path: Path, output: str) -> None:
        """Append the head to an exported model."""
        replace_output(path, output, self._nodes, self._constants())

    @property
    def _norms(self) -> Floats:
        return np.asarray((self.rows**2).sum(axis=1))

    @property
    def _nearest(self) -> Floats:
        return np.array(max(NEAR * float(self._norms.mean()), 1e-12), np.float32)

    @property
    def _own(self) -> Floats:
        return np.array(self.k / (self.k + 1), np.float32)

    @property
    def _spread(self) -> Floats:
        return np.array(1 / ((self.k + 1) * self.votes.shape[1]), np.float32)

    def _constants(self) -> dict[str, Array]:
        classes, width = self.votes.shape[1], self.rows.shape[1]
        values = {
            "middle": self.middle,
            "rows": 2 * self.rows.T,
            "norms": self._norms,
            "votes": self.votes,
            "k": np.array([self.k], np.int64),
            "last": np.array([self.k - 1], np.int64),
            "width": np.array([-1, width], np.int64),
            "mean": self._norms.mean(),
            "margin": np.array(EQUALLY_NEAR, np.float32),
            "none": np.zeros((), np.float32),
            "sum_width": np.ones((width, 1), np.float32),
            "sum_classes": np.ones((classes, 1), np.float32),
            "nearest": self._nearest,
            "own": self._own,
            "spread": self._spread,
        }
        return {PREFIX + name: np.ascontiguousarray(value) for name, value in values.items()}

    def _nodes(self, output: str) -> list[onnx.NodeProto]:
        """Uses only operators with the same form in all opsets from 12 on."""
        nodes: list[onnx.NodeProto] = []

        def node(kind: str, *inputs: str, to: str = "", **attributes: Any) -> str:
            name = to or f"{PREFIX}{kind.lower()}{len(nodes)}"
            names = [name, f"{name}.at"] if kind == "TopK" else [name]
            nodes.append(onnx.helper.make_node(kind, inputs, names, name, **attributes))
            return name

        rows = self._pooled(node)
        away = node("Sub", rows, PREFIX + "middle")
        nearness = node("Sub", node("MatMul", away, PREFIX + "rows"), PREFIX + "norms")
        top = node("TopK", nearness, PREFIX + "k", axis=-1, largest=1)
        last = node("Gather", top, PREFIX + "last", axis=1)
        length = node("MatMul", node("Mul", away, away), PREFIX + "sum_width")
        margin = node("Mul", node("Add", length, PREFIX + "mean"), PREFIX + "margin")
        chosen = node("GreaterOrEqual", nearness, node("Sub", last, margin))
        squares = node("Max", node("Sub", length, nearness), PREFIX + "nearest")
        pull = node("Where", chosen, node("Reciprocal", node("Sqrt", squares)), PREFIX + "none")
        votes = node("MatMul", pull, PREFIX + "votes")
        shares = node("Div", votes, node("MatMul", votes, PREFIX + "sum_classes"))
        node("Log", node("Add", node("Mul", shares, PREFIX + "own"), PREFIX + "spread"), to=output)
        return nodes

    def _pooled(self, node: Any) -> str:
        """The features, (batch, width): the mean over positions, if there are any."""
        head, rank = self.features.head, self.features.rank
        if rank == 2:
            return head.features
        name = head.features
        if head.features_axis != 1:
            name = node("Transpose", name, perm=[0, rank - 1, *range(1, rank - 1)])
        return str(node("Reshape", node("GlobalAveragePool", name), PREFIX + "width"))


def evenly(chosen: Indices, labels: Indices, most: int) -> Indices:
    """At most this many, balanced by class as far as possible; ascending."""
    if len(chosen) <= most:
        return chosen
    counts = np.bincount(labels)
    low, high = 0, most
    while low < high:  # find the maximum per class
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high) if np.minimum(counts, middle).sum() <= most else (low, middle - 1)
        )
    parts = [spread(chosen[labels == label], low) for label in np.flatnonzero(counts) if low]
    return np.sort(np.concatenate(parts)) if parts else spread(chosen, most)
