"""Weights that are stored in fewer bits, unpacked once more where a gradient needs them."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
from onnx import helper

from service.training.graph.builder import STANDARD
from service.training.graph.tensor import Tensor

UNPACKS = ("Cast", "DequantizeLinear")


def unpacked_late(matrix: Tensor, g: Tensor) -> Tensor:
    """The matrix; one that is unpacked from initializers is unpacked once more, when g is there.

    Else it would wait unpacked since the forward pass, as all others would: float32 as a whole.
    """
    node = _maker(matrix)
    if node is None or any(name not in matrix.graph.constants for name in node.input if name):
        return matrix
    packed, *others = (matrix.graph.tensor(name) if name else None for name in node.input)
    given: dict[str, Any] = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    assert packed is not None  # ONNX's checker has seen it
    if node.op_type == "DequantizeLinear" and len(others) == 1 and others[0] is not None:
        # 1.19.2 writes a QuantizeLinear of uint8 behind one of int8 that has no zero point.
        kind = helper.tensor_dtype_to_np_dtype(packed.dtype)
        others.append(packed.graph.constant(np.zeros(others[0].sizes or (), kind)))
    return late(packed, g).op(node.op_type, *others, **given)


def late(packed: Tensor, g: Tensor) -> Tensor:
    """The same tensor, which is not there before g is.

    ONNX Runtime runs what depends on initializers alone at any time it likes. The size of g's batch
    is not known to it, nor that the difference with itself is 0.
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
