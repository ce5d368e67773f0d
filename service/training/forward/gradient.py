"""Which nodes lie between parameters and the output, on the way of a gradient."""

from __future__ import annotations

from collections.abc import Iterable

import onnx

from service.training.forward.graph import Graph
from service.training.graph.flow import reads

FLOATS = frozenset(
    (
        onnx.TensorProto.FLOAT,
        onnx.TensorProto.FLOAT16,
        onnx.TensorProto.BFLOAT16,
        onnx.TensorProto.DOUBLE,
    )
)


def with_gradient(graph: Graph, trainable: Iterable[str]) -> set[str]:
    """Names of all float tensors that a trainable initializer leads to, itself included."""
    found = set(trainable)
    for node in graph.proto.node:
        if not found.isdisjoint(reads(node)):
            found.update(name for name in node.output if name and _is_float(graph, name))
    return found


def on_path(graph: Graph, trainable: Iterable[str]) -> list[onnx.NodeProto]:
    """Nodes between a trainable initializer and the output, in graph order."""
    moving = with_gradient(graph, trainable)
    wanted, path = set(graph.outputs), []
    for node in reversed(graph.proto.node):
        if moving.intersection(node.output) & wanted and not moving.isdisjoint(reads(node)):
            path.append(node)
            wanted.update(name for name in reads(node) if name in moving)
    return path[::-1]


def reached(graph: Graph, trainable: Iterable[str]) -> set[str]:
    """Those of the trainable initializers that the output depends on by a gradient."""
    names = {name for node in on_path(graph, trainable) for name in reads(node)}
    return names.intersection(trainable)


def _is_float(graph: Graph, name: str) -> bool:
    kind = graph.elem_type(name)
    return kind is None or kind in FLOATS
