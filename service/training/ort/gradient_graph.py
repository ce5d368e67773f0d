"""The training graph without its accumulators, which copy each gradient into its buffer."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import onnx

ACCUMULATOR = "InPlaceAccumulatorV2"
BUFFER = "_grad.accumulation.buffer"
RESET = "lazy_reset_grad"


@dataclass(frozen=True, slots=True)
class GradientGraph:
    """Forward and backward in one graph.

    fed: its inputs of a batch, in the order of the training model. loss: its first output.
    gradients: the output of each parameter.
    """

    model: onnx.ModelProto
    fed: tuple[str, ...]
    loss: str
    gradients: dict[str, str]


def gradient_graph(
    training_model: onnx.ModelProto, *, parameters: Collection[str], trained: Collection[str]
) -> GradientGraph | None:
    """None if it is not built as 1.19.2 builds it: one accumulator for each trained parameter.

    parameters: those of the checkpoint, which are inputs of the graph. The loss must be a scalar.
    """
    model = onnx.ModelProto()
    model.CopyFrom(training_model)
    graph = model.graph
    adders = [node for node in graph.node if node.op_type == ACCUMULATOR]
    gradients = {node.input[0].removesuffix(BUFFER): node.input[1] for node in adders}
    if set(gradients) != set(trained) or len(set(gradients.values())) != len(gradients):
        return None
    loss = graph.output[0]
    if not loss.type.tensor_type.HasField("shape") or loss.type.tensor_type.shape.dim:
        return None
    taken = {node.input[0] for node in adders} | {RESET}
    inputs = [each for each in graph.input if each.name not in taken]
    nodes = [node for node in graph.node if node.op_type != ACCUMULATOR]
    outputs = [
        onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None)
        for name in gradients.values()
    ]
    replacement = onnx.helper.make_graph(
        nodes, graph.name, inputs, [loss, *outputs], list(graph.initializer)
    )
    graph.CopyFrom(replacement)
    fed = tuple(each.name for each in inputs if each.name not in parameters)
    return GradientGraph(model, fed, loss.name, gradients)
