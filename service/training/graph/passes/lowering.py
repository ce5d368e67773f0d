"""Replaces operators by ONNX's own definitions of them, in other operators."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx
from onnx import defs, helper, inliner, shape_inference

from service.training.errors import refuse
from service.training.graph.builder import STANDARD
from service.training.graph.passes.inference import bring_back, set_aside


def newer(nodes: Iterable[onnx.NodeProto], version: int) -> list[str]:
    """Operators of the nodes that ONNX defines by others, and that an opset does not know."""
    names = dict.fromkeys(node.op_type for node in nodes if node.domain in STANDARD)
    return [name for name in names if defs.has(name, "") and not defs.has(name, version, "")]


def lower(model: onnx.ModelProto, names: Sequence[str]) -> onnx.ModelProto:
    """The model with ONNX's definitions of these operators in their place.

    Raises GraphRefused if one cannot be written out.
    """
    selected = [n for n in model.graph.node if n.op_type in names and n.domain in STANDARD]
    if not selected:
        return model
    version = next(opset.version for opset in model.opset_import if opset.domain in STANDARD)
    for node in selected:
        _spell_out(node, version)
    weights = set_aside(model)
    inferred = shape_inference.infer_shapes(model, data_prop=True)
    _declare_initializers(inferred.graph)
    ids = [("", name) for name in names]
    try:
        lowered = inliner.inline_selected_functions(inferred, ids, inline_schema_functions=True)
    except RuntimeError as error:
        reason = " ".join(str(error).split())[:300]
        nodes = ", ".join(f'"{node.name}" ({node.op_type})' for node in selected)
        raise refuse(
            "/model/graph/node",
            f"one of the nodes {nodes} cannot be written out by ONNX's definition of it: {reason}; "
            "export the model with the shapes of its tensors",
        ) from None
    bring_back(lowered, weights)
    return lowered


def _declare_initializers(graph: onnx.GraphProto) -> None:
    """Set their types, which the inliner does not read from them."""
    known = {value.name for value in (*graph.value_info, *graph.input)}
    graph.value_info.extend(
        helper.make_tensor_value_info(t.name, t.data_type, t.dims)
        for t in graph.initializer
        if t.name not in known
    )


def _spell_out(node: onnx.NodeProto, version: int) -> None:
    """Write the node's default attributes explicitly: the inliner needs them."""
    there = {attribute.name for attribute in node.attribute}
    for name, attribute in defs.get_schema(node.op_type, version, "").attributes.items():
        if name not in there and attribute.default_value.name:
            node.attribute.append(attribute.default_value)
