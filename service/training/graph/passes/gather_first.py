"""Takes slices of a transposed tensor from the original tensor.

PyTorch's attention moves the axis of query, key and value to the front and takes one of the three:
slicing the original axis saves this transposition, and that of its gradient.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx
from onnx import helper, numpy_helper

from service.training.graph.node import attributes_of
from service.training.graph.passes.simplify import prune


def gather_before_transpose(model: onnx.ModelProto) -> None:
    """Move a Gather of one index, which drops its axis, before a Transpose that moves the axis."""
    graph = model.graph
    numbers = {t.name: t for t in graph.initializer}
    producers = {name: node for node in graph.node for name in node.output}
    for node in graph.node:
        place = numbers.get(node.input[1]) if node.op_type == "Gather" else None
        if place is None or place.dims:
            continue
        source = producers.get(node.input[0])
        transposition = None if source is None else _transposition(source, producers, numbers)
        if transposition is None:
            continue
        name, order = transposition
        axis = attributes_of(node).get("axis", 0) % len(order)
        rest = [length for place, length in enumerate(order) if place != axis]
        if rest == sorted(rest):
            node.input[0] = name
            del node.attribute[:]
            node.attribute.append(helper.make_attribute("axis", order[axis]))
    prune(graph, [value.name for value in graph.output])


def _transposition(
    node: onnx.NodeProto,
    producers: Mapping[str, onnx.NodeProto],
    numbers: Mapping[str, onnx.TensorProto],
) -> tuple[str, Sequence[int]] | None:
    """The tensor that the node transposes, and its order of axes.

    Squeeze may drop the axis that Unsqueeze inserted before a Transpose.
    """
    if node.op_type == "Transpose":
        order = attributes_of(node).get("perm")
        return (node.input[0], order) if order else None
    moved = producers.get(node.input[0]) if node.op_type == "Squeeze" else None
    widened = producers.get(moved.input[0]) if moved is not None else None
    if moved is None or widened is None:
        return None
    if moved.op_type != "Transpose" or widened.op_type != "Unsqueeze":
        return None
    order = attributes_of(moved).get("perm")
    dropped, added = (_axes(step, numbers) for step in (node, widened))
    if not order or len(dropped) != 1 or len(added) != 1:
        return None
    at, new = dropped[0] % len(order), added[0] % len(order)
    if order[at] != new:
        return None
    kept = [axis - (axis > new) for place, axis in enumerate(order) if place != at]
    return widened.input[0], kept


def _axes(node: onnx.NodeProto, numbers: Mapping[str, onnx.TensorProto]) -> list[int]:
    """None if they are left out or computed."""
    names = [name for name in node.input[1:] if name in numbers]
    return [
        int(number) for name in names for number in numpy_helper.to_array(numbers[name]).reshape(-1)
    ]
