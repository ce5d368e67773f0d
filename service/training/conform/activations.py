"""Activations without a gradient, written in operators that have one.

The forms neither overflow nor cancel: exp is only taken of what is not positive.
"""

from __future__ import annotations

import math

import onnx

from service.training.forward.build import Builder
from service.training.forward.graph import attribute, float_attribute, input_at

SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875
"""Defaults of the ONNX operator."""


def softplus(b: Builder, node: onnx.NodeProto) -> str:
    """max(x, 0) + log(1 + exp(-|x|))."""
    return _softplus(b, node.input[0])


def mish(b: Builder, node: onnx.NodeProto) -> str:
    """x · tanh(softplus(x))."""
    return b.mul(node.input[0], b.op("Tanh", _softplus(b, node.input[0])))


def softsign(b: Builder, node: onnx.NodeProto) -> str:
    """x / (1 + |x|)."""
    x = node.input[0]
    return b.div(x, b.add(b.op("Abs", x), b.number(1.0)))


def elu(b: Builder, node: onnx.NodeProto) -> str:
    """max(x, 0) + alpha·(exp(min(x, 0)) - 1)."""
    return _elu(b, node.input[0], float_attribute(node, "alpha", 1.0))


def celu(b: Builder, node: onnx.NodeProto) -> str:
    """max(x, 0) + alpha·(exp(min(x, 0) / alpha) - 1)."""
    alpha = float_attribute(node, "alpha", 1.0)
    x = node.input[0]
    low = b.scale(_below_zero(b, x), 1 / alpha)
    return b.add(b.relu(x), b.scale(b.sub(b.exp(low), b.number(1.0)), alpha))


def selu(b: Builder, node: onnx.NodeProto) -> str:
    """gamma · elu(x, alpha)."""
    alpha = float_attribute(node, "alpha", SELU_ALPHA)
    return b.scale(_elu(b, node.input[0], alpha), float_attribute(node, "gamma", SELU_GAMMA))


def prelu(b: Builder, node: onnx.NodeProto) -> str:
    """max(x, 0) + slope·min(x, 0)."""
    x, slope = node.input
    return b.add(b.relu(x), b.mul(slope, _below_zero(b, x)))


def thresholded_relu(b: Builder, node: onnx.NodeProto) -> str:
    """x where x > alpha, else 0."""
    x = node.input[0]
    above = b.op("Greater", x, b.number(float_attribute(node, "alpha", 1.0)))
    return b.op("Where", above, x, b.number(0.0))


def hard_sigmoid(b: Builder, node: onnx.NodeProto) -> str:
    """alpha·x + beta, kept between 0 and 1."""
    alpha, beta = float_attribute(node, "alpha", 0.2), float_attribute(node, "beta", 0.5)
    return _hard_sigmoid(b, node.input[0], alpha, beta)


def hard_swish(b: Builder, node: onnx.NodeProto) -> str:
    """x · hard_sigmoid(x, 1/6, 1/2)."""
    return b.mul(node.input[0], _hard_sigmoid(b, node.input[0], 1 / 6, 0.5))


def gelu(b: Builder, node: onnx.NodeProto) -> str:
    """x·Φ(x), or its tanh approximation. Source: Hendrycks and Gimpel (2016)."""
    x = node.input[0]
    if attribute(node, "approximate", b"none") == b"tanh":
        cube = b.mul(b.mul(x, x), b.scale(x, 0.044715))
        inner = b.op("Tanh", b.scale(b.add(x, cube), math.sqrt(2 / math.pi)))
    else:
        inner = b.op("Erf", b.scale(x, 1 / math.sqrt(2)))
    return b.mul(b.scale(x, 0.5), b.add(inner, b.number(1.0)))


def total(b: Builder, node: onnx.NodeProto) -> str:
    """Sum of any number of tensors."""
    result = input_at(node, 0)
    for name in node.input[1:]:
        result = b.add(result, name)
    return result


def mean(b: Builder, node: onnx.NodeProto) -> str:
    """Mean of any number of tensors."""
    return b.scale(total(b, node), 1 / len(node.input))


def chain(b: Builder, node: onnx.NodeProto) -> str | None:
    """Max and Min of three tensors or more as a chain of pairs; pairs have a gradient."""
    if len(node.input) < 3:
        return None
    result = input_at(node, 0)
    for name in node.input[1:]:
        result = b.op(node.op_type, result, name)
    return result


def _softplus(b: Builder, x: str) -> str:
    small = b.exp(b.neg(b.op("Abs", x)))
    return b.add(b.relu(x), b.op("Log", b.add(small, b.number(1.0))))


def _elu(b: Builder, x: str, alpha: float) -> str:
    low = b.sub(b.exp(_below_zero(b, x)), b.number(1.0))
    return b.add(b.relu(x), b.scale(low, alpha))


def _below_zero(b: Builder, x: str) -> str:
    return b.neg(b.relu(b.neg(x)))


def _hard_sigmoid(b: Builder, x: str, alpha: float, beta: float) -> str:
    return b.clip(b.add(b.scale(x, alpha), b.number(beta)), 0.0, 1.0)
