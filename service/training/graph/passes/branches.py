"""Replaces an If with a constant condition by its branch.

TorchScript's exporter writes an If for `squeeze` of an axis of unknown size.
"""

from __future__ import annotations

from collections.abc import Mapping

import onnx
from onnx import helper, numpy_helper

from service.training.graph.flow import duplicate, refill, subgraphs


def inline_decided(model: onnx.ModelProto) -> bool:
    """Replace each If with a constant condition by its branch. Was there one?"""
    constants = {t.name: t for t in model.graph.initializer}
    written: list[onnx.NodeProto] = []
    inlined = False
    for node in model.graph.node:
        condition = constants.get(node.input[0]) if node.op_type == "If" else None
        if condition is None:
            written.append(node)
            continue
        inlined = True
        taken = "then_branch" if numpy_helper.to_array(condition).all() else "else_branch"
        written += _branch(model, node, taken)
    refill(model.graph.node, written)
    return inlined


def _branch(model: onnx.ModelProto, node: onnx.NodeProto, which: str) -> list[onnx.NodeProto]:
    """The branch's nodes with unique names, since other branches may use the same names."""
    graph = next(a.g for a in node.attribute if a.name == which)
    own = [*(t.name for t in graph.initializer), *(o for n in graph.node for o in n.output)]
    names = {name: f"{node.name}/{name}" for name in own if name}
    for tensor in graph.initializer:
        model.graph.initializer.append(duplicate(tensor))
        model.graph.initializer[-1].name = names[tensor.name]
    written = [duplicate(inner) for inner in graph.node]
    for inner in written:
        inner.name = f"{node.name}/{inner.name or inner.output[0]}"
        rename(inner, names)
    for result, name in zip(graph.output, node.output, strict=True):
        source = names.get(result.name, result.name)
        written.append(helper.make_node("Identity", [source], [name], name=f"{node.name}:{name}"))
    return written


def rename(node: onnx.NodeProto, names: Mapping[str, str]) -> None:
    """Rename tensors of a node, including in subgraphs, which may read outer tensors."""
    for place in (node.input, node.output):
        if not names.keys().isdisjoint(place):
            place[:] = [names.get(name, name) for name in place]
    for graph in subgraphs(node):
        for inner in graph.node:
            rename(inner, names)
        for value in graph.output:
            value.name = names.get(value.name, value.name)
