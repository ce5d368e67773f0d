"""Elementwise operators of one or two inputs: each line is a rule, g the gradient of output y."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

from service.training.graph.broadcast import unbroadcast
from service.training.graph.node import GradientRule, Gradients, Node
from service.training.graph.tensor import FLOATS, Tensor

Part: TypeAlias = "Callable[..., Tensor] | None"

NO_SLOPE = frozenset(("Ceil", "Floor", "Round", "Sign"))
"""Constant wherever they have a derivative, so their gradient is 0, as in PyTorch."""

PARTS: dict[str, tuple[Part, ...]] = {
    "Abs": (lambda g, y, x: g * x.sign(),),
    "Acos": (lambda g, y, x: -g / (1 - x * x).sqrt(),),
    "Acosh": (lambda g, y, x: g / (x * x - 1).sqrt(),),
    "Add": (lambda g, y, a, b: g, lambda g, y, a, b: g),
    "Asin": (lambda g, y, x: g / (1 - x * x).sqrt(),),
    "Asinh": (lambda g, y, x: g / (x * x + 1).sqrt(),),
    "Atan": (lambda g, y, x: g / (x * x + 1),),
    "Atanh": (lambda g, y, x: g / (1 - x * x),),
    # A quantized value has the gradient of the value that it represents.
    "Cast": (lambda g, y, x: g.cast_like(x) if x.dtype in FLOATS else g,),
    "Cos": (lambda g, y, x: -g * x.op("Sin"),),
    "Cosh": (lambda g, y, x: g * x.op("Sinh"),),
    "Div": (lambda g, y, a, b: g / b, lambda g, y, a, b: -g * y / b),
    "Erf": (lambda g, y, x: g * (-(x * x)).exp() * (2 / math.sqrt(math.pi)),),
    "Exp": (lambda g, y, x: g * y,),
    "Identity": (lambda g, y, x: g,),
    "Log": (lambda g, y, x: g / x,),
    # For floats, where y = a - b·trunc(a/b).
    "Mod": (lambda g, y, a, b: g, lambda g, y, a, b: g * (y - a) / b),
    "Mul": (lambda g, y, a, b: g * b, lambda g, y, a, b: g * a),
    "Neg": (lambda g, y, x: -g,),
    "Reciprocal": (lambda g, y, x: -g * y * y,),
    "Sin": (lambda g, y, x: g * x.op("Cos"),),
    "Sinh": (lambda g, y, x: g * x.op("Cosh"),),
    "Sqrt": (lambda g, y, x: g / (y * 2),),
    "Sub": (lambda g, y, a, b: g, lambda g, y, a, b: -g),
    "Tan": (lambda g, y, x: g * (y * y + 1),),
    "Where": (
        None,
        lambda g, y, c, a, b: c.where(g, 0),
        lambda g, y, c, a, b: c.where(0, g),
    ),
}


def rule_of(parts: tuple[Part, ...]) -> GradientRule:
    """One function for each input, each result summed to the shape of its input."""

    def rule(node: Node, g: Tensor) -> Gradients:
        return [
            unbroadcast(part(g, node.y, *node.inputs), node.y, node.given(i), node.inputs)
            if part is not None and node.wants(i)
            else None
            for i, part in enumerate(parts)
        ]

    return rule


def power(node: Node, g: Tensor) -> Gradients:
    """b·a^(b-1) and y·ln a, which is 0 where a = 0 and b ≥ 0, as in PyTorch."""
    a, exponent = node.given(0), node.given(1)
    b = exponent.cast_like(a)
    constant = _one_number(exponent)
    if constant is not None:
        by_base = g * (a ** (constant - 1) * constant)
    else:
        by_base = b.equal(0).where(0, g * b * a ** (b - 1))
    parts = [unbroadcast(by_base, node.y, a), None]
    if node.wants(1):
        by_exponent = (a.equal(0) & (b >= 0)).where(0, g * node.y * a.log())
        parts[1] = unbroadcast(by_exponent, node.y, b).cast_like(exponent)
    return parts


def total(node: Node, g: Tensor) -> Gradients:
    """Sum of many."""
    return [unbroadcast(g, node.y, x, node.inputs) for x in node.inputs if x is not None]


def mean(node: Node, g: Tensor) -> Gradients:
    """Mean of many."""
    return total(node, g / len(node.inputs))


def extreme(node: Node, g: Tensor) -> Gradients:
    """Max or Min of many: equal ones share the gradient, as in PyTorch."""
    if len(node.inputs) == 1:
        return [g]
    masks = [node.given(i).equal(node.y).cast_like(g) for i in range(len(node.inputs))]
    share = g / sum(masks[1:], masks[0])
    return [
        unbroadcast(share * mask, node.y, node.given(i), node.inputs) if node.wants(i) else None
        for i, mask in enumerate(masks)
    ]


def _one_number(tensor: Tensor) -> float | None:
    value = tensor.value
    return float(value.flat[0]) if value is not None and value.size == 1 else None


RULES: dict[str, GradientRule] = {
    **{name: rule_of(parts) for name, parts in PARTS.items()},
    "Max": extreme,
    "Mean": mean,
    "Min": extreme,
    "Pow": power,
    "Sum": total,
}
