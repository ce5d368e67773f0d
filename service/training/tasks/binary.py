"""Binary cross entropy: a yes or no for each number of the output, which is a logit."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from service.training.engine import Array
from service.training.loss import Loss
from service.training.tasks.task import (
    By,
    LearningTask,
    Metric,
    PassMetrics,
    PerSample,
    columns,
    mean_of_known,
)
from storage.records.signatures import TargetSpec

if TYPE_CHECKING:
    from onnx import NodeProto

    from service.training.forward.graph import Graph
    from service.training.graph.tensor import Tensor


def binary_cross_entropy(output: Array, target: Array) -> PerSample:
    """Mean over a sample's outputs, which are logits; stable for large ones."""
    x, t = columns(output).astype(np.float64), columns(target)
    return mean_of_known(np.maximum(x, 0) - x * t + np.log1p(np.exp(-np.abs(x))), target)


def right_decisions(output: Array, target: Array) -> PerSample:
    """Share of a sample's yes-or-no outputs that are right."""
    return mean_of_known((columns(output) > 0) == (columns(target) >= 0.5), target)


def sigmoid(logits: Array) -> Array:
    """Elementwise, in float64, without overflow."""
    wide = logits.astype(np.float64)
    with np.errstate(invalid="ignore"):
        small = np.exp(-np.abs(wide))
        return np.asarray(np.where(wide >= 0, 1.0, small) / (1.0 + small))


class BinaryCrossEntropy(LearningTask):
    """Numbers from 0 to 1, each by a logit of its own."""

    name = "bce_with_logits"
    title = "binary cross entropy: several yes/no labels"
    metrics: ClassVar[tuple[Metric, ...]] = (
        Metric("accuracy", right_decisions, True),
        Metric("loss", binary_cross_entropy),
    )
    label_range = (0, 1)
    has_doubt = True
    last_operators = (("Sigmoid", "a probability for each of several yes or no"),)

    def of_numbers(self, loss: Loss, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """max(x, 0) - x·t + log(1 + exp(-|x|)): finite for any logit, unlike log(sigmoid(x))."""
        tail = (-output.abs()).op("Softplus")
        return output.op("Relu") - output * target + tail, output.op("Sigmoid") - target

    def written_by(self, graph: Graph, node: NodeProto, label: str) -> str | None:
        """x in log(sigmoid(x))·t, as Microsoft's tools write it, or in x·t, as ours do."""
        if node.op_type != "Mul":
            return None
        other = next((str(name) for name in node.input if name != label), "")
        log = graph.producer(other)
        if log is None or log.op_type != "Log":
            return other or None
        sigmoid_node = graph.producer(log.input[0])
        if sigmoid_node is None or sigmoid_node.op_type != "Sigmoid":
            return None
        return str(sigmoid_node.input[0])

    def pass_metrics(self, target: TargetSpec) -> PassMetrics:
        from service.training.evaluation.metrics import MultiLabel

        return MultiLabel()

    def compared_by(self, target: TargetSpec) -> By:
        return "share"

    def doubt(self, output: Array, target: Array) -> PerSample:
        """Entropy in nats, the mean over a sample's outputs."""
        del target
        # -p log p - (1 - p) log (1 - p), with p = sigmoid(x), in a form that is stable for large x.
        size = np.abs(output.astype(np.float64))
        doubt = np.log1p(np.exp(-size)) + size * np.exp(-size) / (1 + np.exp(-size))
        per_sample: PerSample = columns(doubt).mean(axis=1)
        return per_sample

    def prediction(self, output: Array, *, top: int | None) -> dict[str, Array]:
        return {"probabilities": sigmoid(output).astype(output.dtype)}
