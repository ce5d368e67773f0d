"""Transposes in the one form that the engine reads right."""

from __future__ import annotations

from collections.abc import Sequence

import onnx

from service.training.forward.graph import Graph, ints_attribute, is_default


def spell_out(graph: Graph) -> None:
    """Write the order of axes where it is left out, and Identity where no axis moves.

    1.19.2 fuses every Transpose beside a Gemm as if it swapped two axes, and looks up the order
    beside a MatMul without asking whether it is there (measured). One whose input has a rank that
    is not known yet stays as it is.
    """
    replaced: dict[str, Sequence[onnx.NodeProto]] = {}
    for node in graph.proto.node:
        if not is_default(node, "Transpose"):
            continue
        given = ints_attribute(node, "perm")
        order = _reversed(graph, node) if given is None else given
        if order and order == sorted(order):
            replaced[node.name] = [_like(node, "Identity")]
        elif order and given is None:
            replaced[node.name] = [_like(node, "Transpose")]
            replaced[node.name][0].attribute.append(onnx.helper.make_attribute("perm", order))
    graph.replace(replaced)


def _reversed(graph: Graph, node: onnx.NodeProto) -> list[int]:
    """The default; empty if the rank is not known."""
    return [*range(len(graph.dims(node.input[0]) or ()))][::-1]


def _like(node: onnx.NodeProto, op_type: str) -> onnx.NodeProto:
    return onnx.helper.make_node(op_type, node.input, node.output, name=node.name)
