"""Adds to products in place: a Gemm with a third input saves a pass over both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence

import onnx

from service.training.graph.flow import reads
from service.training.graph.tensor import Shape


def accumulate(
    nodes: Sequence[onnx.NodeProto], shape_of: Callable[[str], Shape | None], results: Iterable[str]
) -> list[onnx.NodeProto]:
    """The nodes, with each Add to a Gemm that nothing else reads as the Gemm's third input."""
    readers = Counter([*results, *(name for node in nodes for name in reads(node))])
    products = {n.output[0]: n for n in nodes if n.op_type == "Gemm" and len(n.input) == 2}
    written: dict[str, onnx.NodeProto] = {node.output[0]: node for node in nodes}
    for node in nodes:
        if node.op_type != "Add":
            continue
        for name, other in (node.input, reversed(node.input)):
            made, shape = products.get(name), shape_of(name)
            if made is None or readers[name] > 1 or shape is None or None in shape:
                continue
            if shape == shape_of(other) and written.pop(name, None) is not None:
                _add_to(node, made, other)
                products.pop(name)
                break
    return list(written.values())


def _add_to(node: onnx.NodeProto, product: onnx.NodeProto, other: str) -> None:
    """Turn the Add into a product that adds `other`."""
    node.op_type = "Gemm"
    node.input[:] = [*product.input, other]
    node.attribute.extend(product.attribute)
