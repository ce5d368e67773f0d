"""Quantized operators, straight through: rounding counts as the identity (Bengio et al. 2013).

Quantizing by x / scale has the derivative 1 / scale, and dequantizing has the derivative scale.
Scales and zero points count as constants. Frozen weights are unpacked again when a gradient needs
them, so that none stays unpacked between forward and backward pass.
"""

from __future__ import annotations

import numpy as np
import onnx

from service.training.graph.node import GradientRule, Gradients, Node
from service.training.graph.places import fixed
from service.training.graph.rules.matrix import late
from service.training.graph.tensor import FLOAT, NotDifferentiable, Tensor

STRAIGHT_THROUGH = frozenset(("DynamicQuantizeLinear", "MatMulInteger", "QuantizeLinear"))
"""Their first output is integer, but gradients flow through it."""
MIDDLE = 8
"""The default zero point of four bits."""


def quantize(node: Node, g: Tensor) -> Gradients:
    """x / scale, rounded; clipped values have the gradient 0. Relu may have become such a clip."""
    scaled, zero = node.x / _scale(node, g), node.optional(2)
    if zero is not None:
        scaled = scaled + zero.cast(FLOAT)
    limits = np.iinfo(onnx.helper.tensor_dtype_to_np_dtype(node.y.dtype))
    inside = (scaled >= limits.min - 0.5) & (scaled <= limits.max + 0.5)
    return [inside.where(g / _scale(node, g), 0)]


def dequantize(node: Node, g: Tensor) -> Gradients:
    """(x - zero point) · scale."""
    if node.attribute("block_size", 0):
        raise NotDifferentiable("it has a scale for each block of what is no constant")
    return [g * _scale(node, g)]


def quantize_by_range(node: Node, g: Tensor, *_: Tensor | None) -> Gradients:
    """DynamicQuantizeLinear: its scale is output 1."""
    return [g / node.output(1)]


def matmul_integer(node: Node, g: Tensor) -> Gradients:
    """The gradient by A is g·(B - zero point)'."""
    if node.wants(1):
        raise NotDifferentiable("its second matrix is no constant")
    matrix, zero = node.given(1), node.optional(3)
    numbers = late(matrix, g).cast(FLOAT)
    if zero is not None:
        numbers = numbers - zero.cast(FLOAT)
    return [(g @ numbers.swap(-1, -2)).known_like(node.x)]


def matmul_four_bits(node: Node, g: Tensor) -> Gradients:
    """MatMulNBits: x·W' in blocks of four bits with a scale each; the gradient by x is g·W."""
    rows, columns, block = (node.attribute(name) for name in ("N", "K", "block_size"))
    if node.attribute("bits", 4) != 4 or any(node.optional(i) is not None for i in (4, 5)):
        raise NotDifferentiable("only weights of four bits in their own order have a gradient here")
    packed, zero = late(node.given(1), g), node.optional(3)
    count = fixed(packed, 1)
    numbers = _halves(packed).reshape(rows, count, block).cast(FLOAT)
    if zero is None:
        numbers = numbers - MIDDLE
    elif zero.dtype == FLOAT:
        numbers = numbers - zero.reshape(rows, count, 1)
    else:
        points = _halves(zero).reshape(rows, -1).slice([0], [count], [1])
        numbers = numbers - points.cast(FLOAT).reshape(rows, count, 1)
    scaled = numbers * node.given(2).reshape(rows, count, 1)
    matrix = scaled.reshape(rows, count * block)
    if count * block != columns:
        matrix = matrix.slice([0], [columns], [1])
    return [(g @ matrix.known(rows, columns)).known_like(node.x)]


def _halves(packed: Tensor) -> Tensor:
    """The lower and the upper four bits of bytes, on a last axis."""
    graph = packed.graph
    low = packed.op("BitwiseAnd", graph.numbers(15, packed.dtype)).unsqueeze(packed.rank)
    high = packed.op("BitShift", graph.numbers(4, packed.dtype), direction="RIGHT")
    return graph.op("Concat", low, high.unsqueeze(packed.rank), axis=packed.rank)


def _scale(node: Node, g: Tensor) -> Tensor:
    """Of all elements, or of each place on an axis."""
    scale = node.given(1)
    if scale.rank == 0 or scale.shape == (1,):
        return scale
    axis = node.attribute("axis", 1) % g.rank
    return scale.unsqueeze(*(at for at in range(g.rank) if at != axis))


RULES: dict[str, GradientRule] = {
    "DequantizeLinear": dequantize,
    "DynamicQuantizeLinear": quantize_by_range,
    "MatMulInteger": matmul_integer,
    "QuantizeLinear": quantize,
    "com.microsoft.MatMulNBits": matmul_four_bits,
}
