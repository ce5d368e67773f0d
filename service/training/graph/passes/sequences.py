"""Replaces sequences of tensors by their tensors: dynamo's `split` and `chunk` create them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from service.training.graph.flow import add_ints, refill
from service.training.graph.node import attributes_of

OPENED = ("ConcatFromSequence", "SequenceAt", "SequenceConstruct", "SplitToSequence")


def open_sequences(model: onnx.ModelProto) -> None:
    """Replace SplitToSequence, SequenceConstruct, SequenceAt and ConcatFromSequence.

    Only if the graph determines which tensor is read where; constants must be initializers.
    """
    constants = {t.name: t for t in model.graph.initializer}
    producers = {name: node for node in model.graph.node for name in node.output}
    written: list[onnx.NodeProto] = []
    for node in model.graph.node:
        parts = _opened(model, node, producers, constants)
        written += [node] if parts is None else parts
    refill(model.graph.node, written)


def _opened(
    model: onnx.ModelProto,
    node: onnx.NodeProto,
    producers: Mapping[str, onnx.NodeProto],
    constants: Mapping[str, onnx.TensorProto],
) -> list[onnx.NodeProto] | None:
    """The replacement of a node that reads a sequence; None if it stays."""
    source = producers.get(node.input[0]) if node.input else None
    if source is None:
        return None
    if node.op_type == "ConcatFromSequence" and source.op_type == "SequenceConstruct":
        return _joined(model, node, source.input)
    if node.op_type != "SequenceAt" or node.input[1] not in constants:
        return None
    place = int(numpy_helper.to_array(constants[node.input[1]]))
    if source.op_type == "SequenceConstruct":
        return [_node("Identity", [source.input[place]], node)]
    if source.op_type == "SplitToSequence":
        return _part(model, node, source, place, constants)
    return None


def _part(
    model: onnx.ModelProto,
    node: onnx.NodeProto,
    split: onnx.NodeProto,
    place: int,
    constants: Mapping[str, onnx.TensorProto],
) -> list[onnx.NodeProto] | None:
    """The part at an index: a slice, without its axis if the sequence dropped it."""
    axis = attributes_of(split).get("axis", 0)
    if len(split.input) < 2 or not split.input[1]:
        begin, end, keeps = place, place + 1 or _END, bool(attributes_of(split).get("keepdims", 1))
    elif split.input[1] in constants:
        sizes, keeps = numpy_helper.to_array(constants[split.input[1]]), True
        if not sizes.ndim and place < 0:
            return None  # The number of parts depends on the size.
        bounds = np.cumsum([0, *sizes]) if sizes.ndim else sizes * np.arange(place + 2)
        place %= len(bounds) - 1
        begin, end = int(bounds[place]), int(bounds[place + 1])
    else:
        return None
    name = node.output[0]
    places = enumerate((begin, end, axis))
    numbers = [add_ints(model.graph, f"{name}/{i}", number) for i, number in places]
    inputs = [split.input[0], *numbers]
    if keeps:
        return [_node("Slice", inputs, node)]
    row = helper.make_node("Slice", inputs, [f"{name}/row"], name=f"{name}/row")
    return [row, _node("Squeeze", [*row.output, numbers[-1]], node)]


_END = int(np.iinfo(np.int64).max)


def _joined(
    model: onnx.ModelProto, node: onnx.NodeProto, parts: Sequence[str]
) -> list[onnx.NodeProto]:
    """The concatenation; if the node stacks, of parts with one more axis."""
    axis = attributes_of(node).get("axis", 0)
    if not attributes_of(node).get("new_axis"):
        return [_node("Concat", parts, node, axis=axis)]
    axes = add_ints(model.graph, f"{node.output[0]}/axes", axis)
    names = [f"{node.output[0]}/{i}" for i in range(len(parts))]
    stacked = [
        helper.make_node("Unsqueeze", [part, axes], [name], name=name)
        for part, name in zip(parts, names, strict=True)
    ]
    return [*stacked, _node("Concat", names, node, axis=axis)]


def _node(
    op_type: str, inputs: Sequence[str], like: onnx.NodeProto, **attributes: Any
) -> onnx.NodeProto:
    return helper.make_node(op_type, inputs, like.output, name=like.name, **attributes)
