"""What no pass could mend, said once for every node."""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import NDArray

from service.training.conform.draft import Draft
from service.training.forward.graph import (
    DEFAULT_DOMAINS,
    Graph,
    input_at,
    int_attribute,
    is_default,
    reads,
)
from service.training.forward.refusals import is_quantized, remedy

DIFFERENTIABLE = frozenset(
    (
        "Abs", "Add", "BatchNormalization", "Cast", "Clip", "Concat", "Conv", "Cos",
        "Div", "Dropout", "Erf", "Exp", "Expand", "Flatten", "GRU", "Gather", "GatherElements",
        "GatherND", "Gemm", "GlobalAveragePool", "Identity", "LSTM", "LayerNormalization",
        "LeakyRelu", "Log", "LogSoftmax", "MatMul", "Max", "MaxPool", "Min", "Mul", "Neg", "Pad",
        "Pow", "Reciprocal", "ReduceLogSumExp", "ReduceMean", "ReduceSum", "Relu", "Reshape",
        "ScatterElements", "ScatterND", "Sigmoid", "Sin", "Slice", "Softmax", "Split", "Sqrt",
        "Squeeze", "Sub", "Tanh", "Tile", "TopK", "Transpose", "Trilu", "Unsqueeze", "Where",
    )
)  # fmt: skip
"""Operators of the default domain for which 1.19.2 builds a gradient that runs on a CPU."""


def judge(draft: Draft) -> None:
    """Add a problem for each node that needs a gradient and has none."""
    path = draft.path()
    on_path = {node.name for node in path}
    for node in _live_choices(draft.graph):
        if node.name not in on_path:
            draft.refuse(
                node,
                "chooses by what depends on the samples, and the engine cannot train a graph that "
                "holds it, not even below what trains; export the model traced, without the choice",
            )
    for node in path:
        if not has_gradient(node):
            draft.refuse(node, remedy(node))
        elif is_default(node, "Conv") and _rank(draft, node) > 5:
            draft.refuse(node, "has more than three spatial axes, which have no gradient")
        elif is_default(node, "MaxPool") and _is_vague(draft, node):
            draft.refuse(node, "has an input of unknown shape; export it with fixed sizes")
        elif is_default(node, "MaxPool") and int_attribute(node, "storage_order", 0):
            draft.refuse(node, "has storage_order=1, which has no gradient; export row-major")


def engine_stops(graph: Graph) -> list[onnx.NodeProto]:
    """Nodes beside which the engine cannot train anything, wherever they are in the graph.

    Measured with 1.19.2: it rewrites quantized operators for training, and fails; it crashes on If,
    where it cannot work out the condition beforehand.
    """
    choices = {node.name for node in _live_choices(graph)}
    return [node for node in graph.proto.node if is_quantized(node) or node.name in choices]


def _live_choices(graph: Graph) -> list[onnx.NodeProto]:
    """Each If whose condition depends on the samples or on how many there are."""
    moving = {value.name for value in graph.inputs}
    for node in graph.proto.node:
        if not moving.isdisjoint(reads(node)) and not _is_fixed_size(graph, node):
            moving.update(filter(None, node.output))
    return [node for node in graph.proto.node if is_default(node, "If") and node.input[0] in moving]


def _is_fixed_size(graph: Graph, node: onnx.NodeProto) -> bool:
    """Is it a Shape of which only sizes are read that no batch changes?"""
    dims = graph.dims(node.input[0]) if is_default(node, "Shape") else None
    if dims is None:
        return False
    start, end = int_attribute(node, "start", 0), int_attribute(node, "end", len(dims))
    sizes = np.array(dims, object)[start:end]
    readers = graph.consumers(node.output[0])
    return all(None not in _picked(graph, reader, sizes) for reader in readers)


def _picked(graph: Graph, reader: onnx.NodeProto, sizes: NDArray[np.object_]) -> list[int | None]:
    """The sizes that a node takes out of a shape: all, unless it is known which."""
    first, second = (graph.array(input_at(reader, index)) for index in (1, 2))
    if is_default(reader, "Gather") and first is not None:
        sizes = sizes[first]
    elif is_default(reader, "Slice") and first is not None and second is not None:
        sizes = sizes[int(first.item()) : int(second.item())]
    return list(np.atleast_1d(sizes).ravel())


def engine_failure(model: onnx.ModelProto, sentence: str) -> str:
    """Why no gradient could be built, in the engine's words, and the cause where it is known."""
    quantized = [
        f'"{each.name}" ({each.op_type})' for each in model.graph.node if is_quantized(each)
    ]
    if not quantized:
        return f"the engine cannot build a gradient: {sentence}"
    return (
        f"{len(quantized)} nodes are quantized, {', '.join(quantized[:3])} first, and the engine "
        "cannot build a gradient of a graph that holds them; register the forward model with "
        'trainable: ["head"], which cuts them off, or export the float model'
    )


def _rank(draft: Draft, node: onnx.NodeProto) -> int:
    return len(draft.graph.dims(node.input[0]) or ())


def _is_vague(draft: Draft, node: onnx.NodeProto) -> bool:
    """The engine reads the sizes from the graph, and crashes on those that it does not find."""
    dims = draft.graph.dims(node.input[0])
    return dims is None or None in dims[1:]


def has_gradient(node: onnx.NodeProto) -> bool:
    """Can the engine differentiate this operator?"""
    return node.domain in DEFAULT_DOMAINS and node.op_type in DIFFERENTIABLE
