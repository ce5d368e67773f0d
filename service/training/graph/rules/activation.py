"""Activations: g is the gradient of the output y, f reads a float attribute.

At a kink the gradient is PyTorch's: 0 for ReLU; 1 at both bounds of Clip, as in torch.clamp.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from service.training.graph.broadcast import unbroadcast
from service.training.graph.node import GradientRule, Gradients, Node
from service.training.graph.tensor import Tensor

STEEP = 3e38
"""Times this, every float32 above 0 that is not denormal becomes 3 or more."""
SELU_ALPHA, SELU_GAMMA = 1.67326319217681884765625, 1.05070102214813232421875
Attribute: TypeAlias = Callable[[str, float], float]


def above_zero(x: Tensor) -> Tensor:
    """1 where x is above 0, else 0: a single node.

    beta is not 0, as OpenVINO's execution provider (1.24.1) computes with 0.5 instead.
    """
    return x.op("HardSigmoid", alpha=STEEP, beta=-1.0)


def _mask(condition: Tensor, like: Tensor) -> Tensor:
    """1 where the condition holds, else 0: a product with it is faster than Where."""
    return condition.cast_like(like)


def _between(y: Tensor, low: float, high: float) -> Tensor:
    return _mask((y > low) & (y < high), y)


def _sigmoid(x: Tensor) -> Tensor:
    return x.op("Sigmoid")


def _by_parts(x: Tensor, above: float, below: Tensor | float) -> Tensor:
    """A derivative that is one number for x > 0."""
    return (x > 0).where(x.graph.numbers(above, x.dtype), below)


SLOPES: dict[str, Callable[[Attribute, Tensor, Tensor], Tensor]] = {
    "Celu": lambda f, y, x: _by_parts(x, 1, y / f("alpha", 1) + 1),
    "Elu": lambda f, y, x: _by_parts(x, 1, y + f("alpha", 1)),
    "HardSigmoid": lambda f, y, x: _between(y, 0, 1) * f("alpha", 0.2),
    "HardSwish": lambda f, y, x: _hard_swish(x),
    "LeakyRelu": lambda f, y, x: _by_parts(x, 1, f("alpha", 0.01)),
    "Mish": lambda f, y, x: _mish(x),
    "Relu": lambda f, y, x: above_zero(y),
    "Selu": lambda f, y, x: _by_parts(
        x, f("gamma", SELU_GAMMA), y + f("alpha", SELU_ALPHA) * f("gamma", SELU_GAMMA)
    ),
    "Shrink": lambda f, y, x: _mask(x.abs() > f("lambd", 0.5), x),
    "Sigmoid": lambda f, y, x: y * (1 - y),
    "Softplus": lambda f, y, x: _sigmoid(x),
    "Softsign": lambda f, y, x: ((x.abs() + 1) ** 2).op("Reciprocal"),
    "Tanh": lambda f, y, x: 1 - y * y,
    "ThresholdedRelu": lambda f, y, x: _mask(x > f("alpha", 1), x),
}


def rule_of(slope: Callable[[Attribute, Tensor, Tensor], Tensor]) -> GradientRule:
    """The gradient is g times the derivative."""

    def rule(node: Node, g: Tensor) -> Gradients:
        return [g * slope(node.attribute, node.y, node.x)]

    return rule


def _hard_swish(x: Tensor) -> Tensor:
    """y = x·clip(x/6 + 1/2, 0, 1)."""
    gate = x.op("HardSigmoid", alpha=1 / 6, beta=0.5)
    return gate + _between(gate, 0, 1) * x / 6


def _mish(x: Tensor) -> Tensor:
    """y = x·tanh(softplus(x))."""
    t = x.op("Softplus").op("Tanh")
    return t + x * (1 - t * t) * _sigmoid(x)


def gelu(node: Node, g: Tensor) -> Gradients:
    """x·Φ(x), or its form with tanh."""
    x = node.x
    if node.attribute("approximate", "none") == "tanh":
        scale = math.sqrt(2 / math.pi)
        t = ((x + x * x * x * 0.044715) * scale).op("Tanh")
        inner = (x * x * (3 * 0.044715) + 1) * scale
        return [g * ((t + 1) * 0.5 + x * (1 - t * t) * inner * 0.5)]
    u = x * math.sqrt(0.5)
    phi = u.op("Erf").op("HardSigmoid", alpha=0.5, beta=0.5)
    return [g * (phi + u * density(u))]


def density(u: Tensor) -> Tensor:
    """Half of the derivative of erf."""
    return (-0.5 * math.log(math.pi) - u * u).exp()


def clip(node: Node, g: Tensor) -> Gradients:
    """1 inside and at the bounds, where y = x; a bound gets the gradients from beyond it."""
    x, low, high = node.x, node.optional(1), node.optional(2)
    below = (g * _mask(x < low, g)).sum() if low is not None and node.wants(1) else None
    above = (g * _mask(x > high, g)).sum() if high is not None and node.wants(2) else None
    return [g * _mask(x.equal(node.y), g), below, above]


def prelu(node: Node, g: Tensor) -> Gradients:
    """The slope is broadcast to x."""
    x, slope = node.x, node.given(1)
    positive = x > 0
    by_slope = unbroadcast(positive.where(0, g * x), node.y, slope) if node.wants(1) else None
    return [g * positive.where(1, slope), by_slope]


def dropout(node: Node, g: Tensor) -> Gradients:
    """As a node of the graph it is inactive: in training its mask is a Mul."""
    if (training := node.optional(2)) is not None and (
        training.value is None or bool(training.value)
    ):
        return [None]
    return [g]


RULES: dict[str, GradientRule] = {
    **{name: rule_of(slope) for name, slope in SLOPES.items()},
    "Clip": clip,
    "Dropout": dropout,
    "Gelu": gelu,
    "PRelu": prelu,
}
