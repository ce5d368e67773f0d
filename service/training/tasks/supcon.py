"""Embeddings: samples of one label come near each other, others far (supervised contrastive).

Source: Khosla et al. (2020), Supervised Contrastive Learning, the loss L_out of equation 2.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from service.training.engine import Array
from service.training.errors import misfit, refuse
from service.training.loss import Loss
from service.training.tasks.loss_graph import LossAndGradient, LossInputs
from service.training.tasks.task import LearningTask, Metric, PassMetrics, PerSample
from storage.arrays import NDArray
from storage.records.signatures import TargetSpec

if TYPE_CHECKING:
    from service.training.graph.tensor import Shape

TEMPERATURE = 0.1
"""Of the cosines, as in the paper."""
ITSELF = -60.0
"""Added to the logit of a sample beside itself: its share is then below 1e-17, and its logarithm is
finite in float32.
"""
LEAST_SQUARE = 1e-12
"""Added to the square of an embedding's length, which may be 0."""
MOST_COSINES = 1 << 22
"""Cosines that are in memory at once."""


def _unit(embeddings: Array) -> NDArray[np.float64]:
    """Of length 1. embeddings: (batch, size)."""
    wide: NDArray[np.float64] = embeddings.astype(np.float64)
    unit: NDArray[np.float64] = wide / np.sqrt((wide**2).sum(axis=1, keepdims=True) + LEAST_SQUARE)
    return unit


def supervised_contrastive(output: Array, target: Array) -> PerSample:
    """-mean of log softmax of the cosines at the batch's others of the same label; 0 without any.

    output: (batch, size). target: (batch,).
    """
    unit = _unit(output)
    logits = unit @ unit.T / TEMPERATURE
    logits += ITSELF * np.eye(len(unit))
    logits -= logits.max(axis=1, keepdims=True)
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    alike: NDArray[Any] = target[:, None] == target
    np.fill_diagonal(alike, False)
    loss: PerSample = -(alike * logs).sum(axis=1) / np.maximum(alike.sum(axis=1), 1)
    return loss


def right_neighbours(output: Array, target: Array) -> PerSample:
    """Whether the sample with the highest cosine, of all others, has the same label."""
    unit, right = _unit(output), np.zeros(len(target))
    size = max(1, MOST_COSINES // max(1, len(unit)))
    for start in range(0, len(unit) if len(unit) > 1 else 0, size):
        rows = np.arange(start, min(start + size, len(unit)))
        cosines = unit[rows] @ unit.T
        cosines[rows - start, rows] = -np.inf
        right[rows] = target[cosines.argmax(axis=1)] == target[rows]
    return right


class EmbeddingMetrics(PassMetrics):
    """recall_at_1: the share of samples whose nearest neighbour has their label, of those that
    share it with any. Keeps all embeddings. Source: Jégou et al. (2011), Product Quantization for
    Nearest Neighbor Search.
    """

    def __init__(self) -> None:
        self._outputs: list[Array] = []
        self._targets: list[Array] = []

    def weights(self, target: Array) -> PerSample:
        """Whether the batch has another sample of the same label."""
        alike: NDArray[Any] = target[:, None] == target
        weights: PerSample = (alike.sum(axis=1) > 1).astype(np.float64)
        return weights

    def update(self, output: Array, target: Array) -> None:
        self._outputs.append(output.copy())
        self._targets.append(target.copy())

    def result(self) -> dict[str, Any]:
        if not self._targets:
            return {"recall_at_1": None}
        target = np.concatenate(self._targets)
        _, place, count = np.unique(target, return_inverse=True, return_counts=True)
        shared = int((count[place] > 1).sum())
        right = right_neighbours(np.concatenate(self._outputs), target).sum()
        return {"recall_at_1": float(right / shared) if shared else None}


class SupervisedContrastive(LearningTask):
    """Labels are whole numbers, of which others may come later, or names of the model's classes."""

    name = "supcon"
    title = "supervised contrastive: embeddings, near for equal labels"
    label_dtype = "int64"
    compares_samples = True
    metrics = (
        Metric("recall_at_1", right_neighbours, True, of_set=True),
        Metric("loss", supervised_contrastive),
    )
    options = frozenset({"sampling"})
    takes_class_names = True

    def compare(self, loss: Loss, inputs: LossInputs) -> LossAndGradient:
        """The gradient of the cosines is softmax less the share of each positive, both ways."""
        assert inputs.target is not None
        output, target = inputs.output, inputs.target
        length = ((output * output).sum([1], keep=True) + LEAST_SQUARE).sqrt()
        unit = output / length
        cosines = unit @ unit.transpose(1, 0)
        itself = cosines.op("EyeLike")
        logs = (cosines * (1 / TEMPERATURE) + itself * ITSELF).op("LogSoftmax", axis=1)
        alike = target.unsqueeze(1).equal(target.unsqueeze(0)).cast_like(output) - itself
        count = alike.sum([1], keep=True)
        one = output.graph.numbers(1.0, output.dtype)
        wanted = alike / count.op("Max", one)
        value = -(wanted * logs).sum([1], keep=True)
        pull = (logs.exp() * count.op("Min", one) - wanted) * inputs.scale
        of_unit = ((pull + pull.transpose(1, 0)) @ unit) * (1 / TEMPERATURE)
        along = (of_unit * unit).sum([1], keep=True)
        gradient = ((of_unit - unit * along) / length).known_like(output)
        return LossAndGradient((value * inputs.scale).sum(), gradient)

    def target_shape(self, loss: Loss, output: Shape) -> Shape:
        return output[:1]

    def weight(self, loss: Loss, target: Array) -> float:
        """The samples of which the batch has another of the same label."""
        _, count = np.unique(target, return_counts=True)
        return float(count[count > 1].sum())

    def target_spec(self, output: Sequence[int], classes: tuple[str, ...] | None) -> TargetSpec:
        if len(output) != 1 or output[0] < 2:
            raise misfit(self.name, "embeddings (batch, size) of two numbers or more", output)
        if classes is not None and len(set(classes)) != len(classes):
            raise refuse("/spec/classes", "a class is named twice; names must differ")
        count = None if classes is None else len(classes)
        return TargetSpec("labels", "int64", (), count, classes)

    def pass_metrics(self, target: TargetSpec) -> PassMetrics:
        return EmbeddingMetrics()

    def prediction(self, output: Array, *, top: int | None) -> dict[str, Array]:
        return {"embedding": output}

    def output_shape(self, target: TargetSpec) -> tuple[int, ...]:
        return (-1,)
