"""Normalizations: batch (by stored statistics), layer, instance and local response."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from service.training.graph.broadcast import unbroadcast
from service.training.graph.node import GradientRule, Gradients, Node
from service.training.graph.places import along, fixed
from service.training.graph.tensor import Tensor


def standardized_gradient(
    g: Tensor, standard: Tensor, inverse: Tensor, axes: Sequence[int]
) -> Tensor:
    """The gradient by x of (x - mean)/deviation, where both are x's own over some axes.

    g: the gradient of the standardized x. inverse: 1/deviation, broadcast over the axes.
    """
    level = g.mean(axes, keep=True)
    tilt = (g * standard).mean(axes, keep=True)
    return (g - level - standard * tilt) * inverse


def batch(node: Node, g: Tensor) -> Gradients:
    """With stored statistics: a scale and a shift for each channel."""
    x, scale, _, mean, variance = (node.given(i) for i in range(5))
    inner = range(1, x.rank - 1)
    others = [a for a in range(x.rank) if a != 1]
    inverse = 1 / (variance + node.attribute("epsilon", 1e-5)).sqrt()
    by_shift = g.sum(others)
    factor = scale * inverse
    by_x = g * factor.unsqueeze(*inner) if node.wants(0) else None
    if not any(node.wants(i) for i in (1, 3, 4)):
        return [by_x, None, by_shift, None, None]
    spread = (g * (x - mean.unsqueeze(*inner))).sum(others)
    by_variance = spread * factor * inverse * inverse * -0.5
    return [by_x, spread * inverse, by_shift, -by_shift * factor, by_variance]


def layer(node: Node, g: Tensor) -> Gradients:
    """Over the last axes; the operator has optional outputs for its mean and 1/deviation."""
    x, scale = node.x, node.given(1)
    axes = list(range(x.axis(node.attribute("axis", -1)), x.rank))
    inverse = node.output(2).cast_like(x)
    standard = (x - node.output(1).cast_like(x)) * inverse
    by_x = None
    if node.wants(0) and len(axes) == 1 and isinstance(x.shape and x.shape[-1], int):
        # Means over the last axis are products with a vector, which take half the time.
        share = (scale / fixed(x, -1)).unsqueeze(1)
        level, tilt = g @ share, (g * standard) @ share
        by_x = (g * scale - level - standard * tilt) * inverse
    elif node.wants(0):
        by_x = standardized_gradient(g * scale, standard, inverse, axes)
    return [
        by_x,
        unbroadcast(g * standard, node.y, scale) if node.wants(1) else None,
        unbroadcast(g, node.y, node.given(2)) if node.wants(2) else None,
    ]


def instance(node: Node, g: Tensor) -> Gradients:
    """Each channel of each sample over its positions."""
    x, scale = node.x, node.given(1)
    axes = list(range(2, x.rank))
    centred = x - x.mean(axes, keep=True)
    variance = (centred * centred).mean(axes, keep=True)
    inverse = 1 / (variance + node.attribute("epsilon", 1e-5)).sqrt()
    standard = centred * inverse
    by_standard = g * scale.unsqueeze(*range(1, x.rank - 1))
    return [
        standardized_gradient(by_standard, standard, inverse, axes) if node.wants(0) else None,
        (g * standard).sum([0, *axes]) if node.wants(1) else None,
        g.sum([0, *axes]) if node.wants(2) else None,
    ]


def local_response(node: Node, g: Tensor) -> Gradients:
    """y = x / (bias + alpha/size·Σ x² of the channels around)^beta."""
    x, size = node.x, node.attribute("size")
    alpha, beta = node.attribute("alpha", 1e-4), node.attribute("beta", 0.75)
    channels = np.arange(fixed(x, 1))
    distance = channels - channels[:, None]
    near = (distance >= -((size - 1) // 2)) & (distance <= size // 2)
    base = along(x * x, 1, near.T) * (alpha / size) + node.attribute("bias", 1.0)
    falling = base**-beta
    through = along(g * x * falling / base, 1, near)
    return [g * falling - x * through * (2 * alpha * beta / size)]


RULES: dict[str, GradientRule] = {
    "BatchNormalization": batch,
    "InstanceNormalization": instance,
    "LRN": local_response,
    "LayerNormalization": layer,
}
