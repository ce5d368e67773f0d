"""Adds to what is there: a Gemm with a third input, or a ScatterElements into it, saves passes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterable, Sequence

import onnx

from service.training.graph.flow import reads
from service.training.graph.node import attributes_of
from service.training.graph.tensor import Shape


def accumulate(
    nodes: Sequence[onnx.NodeProto],
    shape_of: Callable[[str], Shape | None],
    results: Iterable[str],
    *,
    zeros: Container[str] = (),
) -> list[onnx.NodeProto]:
    """The nodes, with each Add to a Gemm that nothing else reads as the Gemm's third input, and
    each Add to rows that were added to zeros as their addition to the other summand.

    zeros: names of numbers that are 0.
    """
    readers = Counter([*results, *(name for node in nodes for name in reads(node))])
    # The first output may have no name, as of a GRU.
    written: dict[str, onnx.NodeProto] = {next(filter(None, node.output)): node for node in nodes}
    empty = {n.output[0] for n in nodes if n.op_type == "Expand" and n.input[0] in zeros}
    sums = {
        n.output[0]: n
        for n in nodes
        if (n.op_type == "Gemm" and len(n.input) == 2)
        or (
            n.op_type == "ScatterElements"
            and n.input[0] in empty
            and attributes_of(n).get("reduction") == b"add"
        )
    }
    for node in nodes:
        if node.op_type != "Add":
            continue
        for name, other in (node.input, reversed(node.input)):
            total, shape = sums.get(name), shape_of(name)
            if total is None or readers[name] > 1 or shape is None or None in shape:
                continue
            if shape == shape_of(other) and written.pop(name, None) is not None:
                _add_to(node, total, other)
                sums.pop(name)
                break
    return list(written.values())


def _add_to(node: onnx.NodeProto, part: onnx.NodeProto, other: str) -> None:
    """Turn the Add into the node that made one part, with the other to begin with."""
    node.op_type = part.op_type
    inputs = [*part.input, other] if part.op_type == "Gemm" else [other, *part.input[1:]]
    node.input[:] = inputs
    node.attribute.extend(part.attribute)
