"""Gather of single positions: its gradient adds element by element, Split's and Slice's copy.

PyTorch writes `x[0]` and the three parts of attention's joined projection so. Measured on a small
transformer, six such gradients took a third of a step.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import onnx

from service.training.conform.draft import Draft
from service.training.forward.build import Builder
from service.training.forward.graph import Graph, int_attribute

SINCE = 13
"""The opset since which Split and Squeeze take their sizes and axes as inputs."""


def mend(draft: Draft) -> None:
    """Read neighbours along one axis by one Split, and single positions by Slice."""
    if draft.graph.opset < SINCE:
        return
    groups: dict[tuple[str, int], dict[int, onnx.NodeProto]] = defaultdict(dict)
    for node in draft.path("Gather"):
        place = _place(draft.graph, node)
        if place is not None:
            tensor, axis, position = place
            # Of two that read one position the second stays.
            groups[tensor, axis].setdefault(position, node)
    replaced: dict[str, Sequence[onnx.NodeProto]] = {}
    for (tensor, axis), nodes in groups.items():
        size = (draft.graph.dims(tensor) or ())[axis]
        if len(nodes) > 1 and sorted(nodes) == list(range(size or 0)):
            replaced.update(_split(draft.graph, tensor, axis, nodes))
        else:
            replaced.update(_slices(draft.graph, tensor, axis, nodes))
    draft.note(
        [node for node in draft.path("Gather") if node.name in replaced],
        "Gather of a single position became Split or Slice, whose gradient is faster",
    )
    draft.graph.replace(replaced)


def _place(graph: Graph, node: onnx.NodeProto) -> tuple[str, int, int] | None:
    """Tensor, axis and position, where one position of a fixed axis is read."""
    index, dims = graph.array(node.input[1]), graph.dims(node.input[0])
    if index is None or index.ndim > 0 or dims is None:
        return None
    axis = int_attribute(node, "axis", 0) % len(dims)
    size = dims[axis]
    return None if size is None else (node.input[0], axis, int(index) % size)


def _split(
    graph: Graph, tensor: str, axis: int, nodes: dict[int, onnx.NodeProto]
) -> dict[str, Sequence[onnx.NodeProto]]:
    """The first node's place takes the Split, since the tensor is known there."""
    order = {node.name: at for at, node in enumerate(graph.proto.node)}
    first = min(nodes.values(), key=lambda node: order[node.name])
    b = Builder(graph, first.name)
    b.op("Split", tensor, b.ints([1] * len(nodes)), outputs=len(nodes), axis=axis)
    (split,) = b.nodes
    replaced: dict[str, Sequence[onnx.NodeProto]] = {}
    for position, node in nodes.items():
        squeezed = _squeeze(Builder(graph, node.name), split.output[position], axis, node)
        replaced[node.name] = [split, *squeezed] if node is first else squeezed
    return replaced


def _slices(
    graph: Graph, tensor: str, axis: int, nodes: dict[int, onnx.NodeProto]
) -> dict[str, Sequence[onnx.NodeProto]]:
    replaced: dict[str, Sequence[onnx.NodeProto]] = {}
    for position, node in nodes.items():
        b = Builder(graph, node.name)
        ends = b.ints([position]), b.ints([position + 1]), b.ints([axis])
        replaced[node.name] = _squeeze(b, b.op("Slice", tensor, *ends), axis, node)
    return replaced


def _squeeze(b: Builder, one: str, axis: int, node: onnx.NodeProto) -> list[onnx.NodeProto]:
    return b.finish(b.op("Squeeze", one, b.ints([axis])), node.output[0])
