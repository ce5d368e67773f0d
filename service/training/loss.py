"""The loss that training minimizes. Its task writes it as a graph: service/training/tasks/."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from storage.arrays import NDArray

LABEL_SCALE, LABEL_MEAN = "hone.label_scale", "hone.label_mean"
"""Tensors of a model of numbers: its output is what its last layer gives, times the scale, plus the
mean."""
LOSS, LOSS_SCALE = "hone.loss", "hone.loss_scale"
"""The output of a step that is its loss, and the input that scales it."""
CLASS_VECTORS = ("hone.class_on", "hone.class_off")
TEACHER = "hone.teacher"
SUM = "hone.sum."
"""Prefix of the input that an output of a step is added to."""
TEMPERATURE = 2.0
"""Softmax temperature of a teacher's answers, as in Li and Hoiem (2016)."""


class Loss(Struct, frozen=True):
    """The loss to minimize.

    name: of its task. tensor: the one that is itself a loss, empty if the one that is measured is
    compared. target: the model's input that only this loss reads. class_axis: of the logits;
    targets have all other axes, and IGNORED where a position does not count. by_class: a step is
    fed label_smoothing and class_weights of cross entropy, as in PyTorch, as the vectors of
    `class_vectors`, and a teacher's answers. scales_labels: the output is scaled by LABEL_SCALE and
    LABEL_MEAN; the value is in target units, the gradient that of standardized targets.
    has_unknown: numbers of a target may be NaN, which do not count.
    """

    name: str
    class_axis: int = 1
    label_smoothing: float = 0.0
    class_weights: tuple[float, ...] | None = None
    by_class: bool = False
    tensor: str = ""
    target: str | None = None
    scales_labels: bool = False
    has_unknown: bool = False

    @property
    def label_tensors(self) -> tuple[str, ...]:
        """Names of the tensors that scale its output. Each run is fed them, as its samples: what is
        run once for a batch is fed parameters alone.
        """
        return (LABEL_SCALE, LABEL_MEAN) if self.scales_labels else ()

    def class_vectors(self, classes: int) -> dict[str, NDArray[np.float32]]:
        """Per class: its weight as the target, and its weight anywhere.

        Keys are names of inputs of a step whose loss is by_class.
        """
        weights = np.array(self.class_weights or [1.0] * classes)
        vectors = {
            CLASS_VECTORS[0]: weights * (1 - self.label_smoothing),
            CLASS_VECTORS[1]: weights * (self.label_smoothing / classes),
        }
        return {name: np.asarray(vector, np.float32) for name, vector in vectors.items()}
