"""The loss that training minimizes. service/training/graph/losses.py writes it as a graph."""

from __future__ import annotations

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

CLASS_VECTORS = ("hone.class_on", "hone.class_off", "hone.class_counts")
TEACHER = "hone.teacher"
TEMPERATURE = 2.0
"""Softmax temperature of a teacher's answers, as in Li and Hoiem (2016)."""


class Loss(Struct, frozen=True):
    """The loss to minimize.

    name: one of LOSSES, or `output` for a tensor of the model that is itself a loss. tensor: its
    name, empty for the tensor that is measured. target: the model's input that only this loss
    reads. class_axis: of the logits; targets have all other axes. label_smoothing, class_weights,
    ignore_index: of cross entropy, as in PyTorch. by_class: these three are fed, as the vectors of
    `class_vectors`, and so are a teacher's answers. distillation: the weight of these. delta: of
    huber, in target units.
    """

    name: str
    class_axis: int = 1
    label_smoothing: float = 0.0
    class_weights: tuple[float, ...] | None = None
    ignore_index: int | None = None
    delta: float = 1.0
    by_class: bool = False
    distillation: float = 0.0
    tensor: str = ""
    target: str | None = None

    @property
    def counts_samples(self) -> bool:
        """Whether every sample has the weight 1: no class is weighted or ignored."""
        return self.class_weights is None and self.ignore_index is None

    def weight(self, target: NDArray[np.generic]) -> float:
        """The divisor of the batch's losses, in samples: 1/weight is the scale to feed."""
        if self.counts_samples:
            return float(len(target))
        counts = target != self.ignore_index
        weights = (
            np.ones(target.shape)
            if self.class_weights is None
            else np.take(self.class_weights, np.where(counts, target, 0))
        )
        return float((weights * counts).sum() / target[0].size)

    def class_vectors(self, classes: int) -> dict[str, NDArray[np.float32]]:
        """Per class: its weight as the target, its weight anywhere, and whether it counts.

        Keys are names of inputs of a step whose loss is by_class.
        """
        weights = np.array(self.class_weights or [1.0] * classes)
        vectors = {
            CLASS_VECTORS[0]: weights * (1 - self.label_smoothing),
            CLASS_VECTORS[1]: weights * (self.label_smoothing / classes),
            CLASS_VECTORS[2]: np.arange(classes) != self.ignore_index,
        }
        return {name: np.asarray(vector, np.float32) for name, vector in vectors.items()}
