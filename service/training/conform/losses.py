"""Losses as subgraphs on top of the forward graph. All are means over what they compare."""

from __future__ import annotations

from collections.abc import Callable

import onnx

from service.training.forward.build import Builder
from service.training.forward.graph import FLOAT, Graph
from storage.records.signatures import TargetSpec

LOSS = "loss"


def append_loss(
    model: onnx.ModelProto, output: str, loss: str, target: TargetSpec
) -> onnx.ModelProto:
    """A copy with the label as last input and two outputs: the loss, then `output`."""
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    graph = Graph(copy)
    batch = graph.inputs[0].type.tensor_type.shape.dim[0].dim_param
    kind = onnx.TensorProto.INT64 if target.dtype == "int64" else FLOAT
    label = graph.fresh(target.name)
    b = Builder(graph, LOSS)
    result = LOSSES[loss](b, output, label)
    final = graph.fresh(LOSS)
    nodes = b.finish(result, final)
    copy.graph.input.append(onnx.helper.make_tensor_value_info(label, kind, [batch, *target.shape]))
    copy.graph.node.extend(nodes)
    copy.graph.output.insert(0, onnx.helper.make_tensor_value_info(final, FLOAT, []))
    return copy


def cross_entropy(b: Builder, logits: str, labels: str) -> str:
    """Classes on axis 1, labels are class indices."""
    return b.op("SoftmaxCrossEntropyLoss", logits, labels, outputs=2, reduction="mean")


def mse(b: Builder, output: str, target: str) -> str:
    """Mean of squared differences."""
    error = b.sub(output, target)
    return _mean(b, b.mul(error, error))


def l1(b: Builder, output: str, target: str) -> str:
    """Mean of absolute differences."""
    return _mean(b, b.op("Abs", b.sub(output, target)))


def bce_with_logits(b: Builder, logits: str, target: str) -> str:
    """max(x, 0) - x·t + log(1 + exp(-|x|)): finite for any logit, unlike log(sigmoid(x))."""
    small = b.exp(b.neg(b.op("Abs", logits)))
    tail = b.op("Log", b.add(small, b.number(1.0)))
    return _mean(b, b.add(b.sub(b.relu(logits), b.mul(logits, target)), tail))


LOSSES: dict[str, Callable[[Builder, str, str], str]] = {
    "bce_with_logits": bce_with_logits,
    "cross_entropy": cross_entropy,
    "l1": l1,
    "mse": mse,
}


def _mean(b: Builder, value: str) -> str:
    return b.op("ReduceMean", value, keepdims=0)
