"""Pooling: the gradient goes to a window's maximum, or to all numbers by their share."""

from __future__ import annotations

import numpy as np

from service.training.graph.kernel_windows import WindowShape, windows_of
from service.training.graph.node import GradientRule, Gradients, Node
from service.training.graph.places import along, fixed
from service.training.graph.tensor import INT64, Array, Tensor


def max_pool(node: Node, g: Tensor) -> Gradients:
    """To the first maximum, whose index is an optional output of the operator.

    Indices count through the whole tensor. Windows that tile it put each number back; others add.
    """
    windows, x = _windows(node), node.x
    tiles = x.shape is not None and windows.tile(x.shape[2:])
    if tiles and len(windows.kernel) == 2:
        return [_to_firsts(node, g, windows.kernel)]
    places = node.output(1)
    if tiles:
        shape = {"kernel_shape": list(windows.kernel), "strides": list(windows.strides)}
        return [g.op("MaxUnpool", places, x.dims(), **shape).known_like(x)]
    flat = g.graph.ints([-1])
    count = x.op("Size").op("Reshape", flat)
    zeros = g.graph.numbers(0, g.dtype).op("Expand", count)
    chosen, numbers = places.op("Reshape", flat), g.op("Reshape", flat)
    spread = zeros.op("ScatterElements", chosen, numbers, axis=0, reduction="add")
    return [spread.reshape_like(x)]


def _to_firsts(node: Node, g: Tensor, kernel: tuple[int, ...]) -> Tensor:
    """To the first maximum: numbers fall within a window, so its largest at a maximum is the first.

    Faster than requesting indices: pooling with them takes ten times as long as without.
    """
    x = node.x
    shape = {"kernel_shape": list(kernel), "strides": list(kernel)}
    counts = [fixed(x, axis) // k for axis, k in zip((2, 3), kernel, strict=True)]
    falling = np.arange(kernel[0] * kernel[1], 0, -1).reshape(kernel)
    numbers = g.graph.numbers(np.tile(falling, counts)[None, None], g.dtype)
    candidates = x.equal(_repeated(node.y, kernel)).cast_like(g) * numbers
    firsts = candidates.op("MaxPool", **shape).known_like(node.y)
    chosen = candidates.equal(_repeated(firsts, kernel)).cast_like(g)
    return (chosen * _repeated(g, kernel)).known_like(x)


def _repeated(tensor: Tensor, kernel: tuple[int, ...]) -> Tensor:
    """Every number as a block of the kernel's size."""
    scales = tensor.graph.constant(np.array([1, 1, *kernel], np.float32))
    return tensor.op(
        "Resize",
        None,
        scales,
        mode="nearest",
        coordinate_transformation_mode="asymmetric",
        nearest_mode="floor",
    )


def max_unpool(node: Node, g: Tensor) -> Gradients:
    """The parts of g at the places that the input was put to."""
    flat, places = g.graph.ints([-1]), node.given(1)
    taken = g.op("Reshape", flat).op("Gather", places.op("Reshape", flat), axis=0)
    return [taken.reshape_like(node.x)]


def global_max_pool(node: Node, g: Tensor) -> Gradients:
    """To the first maximum."""
    x = node.x
    rows = x.reshape(*(x.size(a) for a in (0, 1)), -1)
    first = rows.op("ArgMax", axis=2, keepdims=1)
    numbers = g.graph.numbers
    places = g.graph.op("Range", numbers(0, INT64), rows.size(2).squeeze(0), numbers(1, INT64))
    chosen = first.equal(places).cast_like(g)
    return [(g.reshape(*(g.size(a) for a in (0, 1)), 1) * chosen).reshape_like(x)]


def average_pool(node: Node, g: Tensor) -> Gradients:
    """Equally to all numbers of a window; windows are a matrix along each axis."""
    windows = _windows(node)
    for axis in windows.axes:
        size, count = fixed(node.x, axis), fixed(node.y, axis)
        share = windows.share(axis, size, count).astype(float)
        held = (
            share.sum(1)
            if not node.attribute("count_include_pad", 0)
            else _spread(windows, axis, size, count)
        )
        g = along(g, axis, share / held[:, None])
    return [g.known_like(node.x)]


def _spread(windows: WindowShape, axis: int, size: int, count: int) -> Array:
    """The number of positions of each window in the input or its pads; a ceiling may go beyond."""
    i = axis - 2
    starts = np.arange(count)[:, None] * windows.strides[i]
    places = starts + np.arange(windows.kernel[i]) * windows.dilations[i]
    return np.asarray((places < size + windows.befores[i] + windows.afters[i]).sum(1))


def global_average_pool(node: Node, g: Tensor) -> Gradients:
    """g / count, everywhere."""
    return [g.per_number(node.x, range(2, node.x.rank)).expand_like(node.x)]


def lp_pool(node: Node, g: Tensor) -> Gradients:
    """y = (Σ |x|^p)^(1/p) over a window; 0 where all of it is 0."""
    windows, x, p = _windows(node), node.x, node.attribute("p", 2)
    spread = _over_power(g, node.y, p)
    for axis in windows.axes:
        size, count = fixed(x, axis), fixed(node.y, axis)
        spread = along(spread, axis, windows.share(axis, size, count))
    return [spread * _power_slope(x, p)]


def global_lp_pool(node: Node, g: Tensor) -> Gradients:
    """One window."""
    p = node.attribute("p", 2)
    return [_over_power(g, node.y, p) * _power_slope(node.x, p)]


def _over_power(g: Tensor, y: Tensor, p: int) -> Tensor:
    return y.equal(0).where(0, g / y ** (p - 1)) if p > 1 else g


def _power_slope(x: Tensor, p: int) -> Tensor:
    """sign(x)·|x|^(p-1)."""
    return x if p == 2 else x.sign() * x.abs() ** (p - 1) if p > 1 else x.sign()


def _windows(node: Node) -> WindowShape:
    return windows_of(node, tuple(node.attribute("kernel_shape")), node.x, node.y)


RULES: dict[str, GradientRule] = {
    "AveragePool": average_pool,
    "GlobalAveragePool": global_average_pool,
    "GlobalLpPool": global_lp_pool,
    "GlobalMaxPool": global_max_pool,
    "LpPool": lp_pool,
    "MaxPool": max_pool,
    "MaxUnpool": max_unpool,
}
