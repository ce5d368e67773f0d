"""Products with large weights, written so that the runtime need not rearrange the weights.

It reorders the second matrix of a Gemm: trainable weights again at each step. With the weights as
the first matrix it reorders the batch, which is smaller.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import numpy as np
import onnx
from onnx import helper

from service.training.graph.builder import Builder
from service.training.graph.flow import moving
from service.training.graph.node import attributes_of
from service.training.graph.tensor import product

LARGE = 1 << 16
"""Elements.

A step of an MLP with larger weights took one thread 0.88 ms on 32 rows instead of 1.01, and 1.65 on
64 instead of 1.73, including the transpositions.
"""


def put_weights_first(
    graph: Builder, nodes: Sequence[onnx.NodeProto], weights: Collection[str]
) -> Iterator[onnx.NodeProto]:
    """The nodes, with each Gemm of a batch's rows with large transposed weights rewritten."""
    for node in nodes:
        if not _fits(graph, node, weights):
            yield node
            continue
        (result,) = node.output
        rows, matrix, *bias = node.input
        turned, operands = f"{result}:turned", [matrix, rows]
        if bias:
            operands.append(f"{result}:bias")
            axis = graph.constant(np.array([1])).name
            yield helper.make_node("Unsqueeze", [bias[0], axis], operands[2:], name=operands[2])
        attributes = attributes_of(node)
        yield helper.make_node("Gemm", operands, [turned], name=turned, **attributes)
        yield helper.make_node("Transpose", [turned], [result], name=result, perm=[1, 0])


def unpack_late(nodes: Sequence[onnx.NodeProto], fed: Collection[str]) -> list[onnx.NodeProto]:
    """The nodes, with those first that do not depend on inputs.

    ONNX Runtime goes backwards from the outputs, and visits a node's last written input first.
    Written next to its product, each DequantizeLinear would run before the earlier layers, and all
    weights would be float32 at once; written first, it runs right before its product.
    """
    moved = moving(nodes, fed)
    return sorted(nodes, key=lambda node: not moved.isdisjoint(node.output))


def _fits(graph: Builder, node: onnx.NodeProto, weights: Collection[str]) -> bool:
    attributes = attributes_of(node)
    if node.op_type != "Gemm" or attributes.get("transA", 0) or not attributes.get("transB", 0):
        return False
    rows, matrix, *bias = (graph.tensor(name).shape for name in node.input)
    if node.input[1] not in weights or rows is None or isinstance(rows[0], int):
        return False
    sizes = [size for size in matrix or () if isinstance(size, int)]
    return product(sizes) >= LARGE and rows[0] == graph.batch and bias in ([], [(sizes[0],)])
