"""Weights stored in fewer bits, unpacked again when a gradient needs them."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper

from service.training.graph.builder import STANDARD
from service.training.graph.node import attributes_of
from service.training.graph.tensor import Tensor

UNPACKS = ("Cast", "DequantizeLinear")


def unpacked_late(matrix: Tensor, g: Tensor) -> Tensor:
    """The matrix; one unpacked from initializers is unpacked again, once g exists.

    Otherwise all such weights would stay unpacked in float32 from the forward pass on.
    """
    node = _maker(matrix)
    if node is None or any(name not in matrix.graph.constants for name in node.input if name):
        return matrix
    packed, *others = (matrix.graph.tensor(name) if name else None for name in node.input)
    assert packed is not None  # ONNX's checker has verified it
    if node.op_type == "DequantizeLinear" and len(others) == 1 and others[0] is not None:
        # 1.19.2 writes a QuantizeLinear of uint8 behind one of int8 that has no zero point.
        kind = helper.tensor_dtype_to_np_dtype(packed.dtype)
        others.append(packed.graph.constant(np.zeros(others[0].sizes or (), kind)))
    return late(packed, g).op(node.op_type, *others, **attributes_of(node))


def late(packed: Tensor, g: Tensor) -> Tensor:
    """The same tensor, made to depend on g.

    ONNX Runtime may run nodes that depend only on initializers at any time. It knows neither the
    size of g's batch, nor that the size minus itself is 0.
    """
    batch = g.size(0)
    if packed.shape is None or batch.value is not None:
        return packed
    sizes = packed.graph.ints([int(size) for size in packed.sizes or ()])
    return packed.op("Reshape", sizes + (batch - batch)).known_like(packed)


def _maker(matrix: Tensor) -> onnx.NodeProto | None:
    nodes = matrix.graph.nodes if matrix.name not in matrix.graph.constants else ()
    return next(
        (
            node
            for node in nodes
            if node.op_type in UNPACKS and node.domain in STANDARD and matrix.name in node.output
        ),
        None,
    )
