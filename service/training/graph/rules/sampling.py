"""Operators that sample images at computed positions, and add up blocks at fixed ones.

Source: ONNX's operator pages, AffineGrid-20, GridSample-20 and Col2Im-18.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from itertools import product
from math import prod
from operator import and_, mul

import numpy as np
from msgspec import Struct

from service.training.graph.node import GradientRule, Gradients, Node
from service.training.graph.passes.pads import all_pads
from service.training.graph.places import fixed
from service.training.graph.tensor import INT64, Array, NotDifferentiable, Tensor


class Axis(Struct, frozen=True):
    """The positions at which an image is read along one axis.

    at: in pixels, (N, *counts). slope: derivative of `at` by the grid's coordinate. size, stride:
    of the axis, int64 vectors of one number.
    """

    at: Tensor
    slope: Tensor
    size: Tensor
    stride: Tensor


def grid_sample(node: Node, g: Tensor) -> Gradients:
    """x: (N, C, *sizes). grid: (N, *counts, axes), its first coordinate along the last axis."""
    x, grid = node.x, node.given(1)
    mode = node.attribute("mode", "linear")
    if mode in ("cubic", "bicubic"):
        raise NotDifferentiable("its mode is cubic; export it with linear")
    axes = _axes(node, x, grid)
    image, g = (tensor.reshape(x.size(0), x.size(1), -1) for tensor in (x, g))
    by_image, slopes = by_sampling(image, axes, g, nearest=mode == "nearest", moves=node.wants(1))
    by_axis = [(s * axis.slope).unsqueeze(-1) for s, axis in zip(slopes, axes, strict=True)]
    return [
        by_image.op("Reshape", x.dims(), allowzero=1).known_like(x),
        g.graph.op("Concat", *by_axis, axis=-1).known_like(grid),
    ]


class Corner(Struct, frozen=True):
    """One of the pixels around each position, of 2 along each axis.

    bits: whether it is the upper one, by axis. inside: 1 where the image has it. shares: its
    weights, by axis. index: of the pixel within its channel, (N, C, L).
    """

    bits: tuple[int, ...]
    inside: Tensor
    shares: list[Tensor]
    index: Tensor


def corners(image: Tensor, axes: list[Axis], *, nearest: bool = False) -> Iterator[Corner]:
    """image: (N, C, pixels). nearest: one corner only, of weight 1."""
    first = [axis.at.op("Round" if nearest else "Floor") for axis in axes]
    for bits in product((0, 1), repeat=0 if nearest else len(axes)):
        places = [at + c for at, c in zip(first, bits or (0,) * len(axes), strict=True)]
        shares = [_share(axis.at - at, c) for axis, at, c in zip(axes, first, bits, strict=False)]
        yield Corner(bits, _inside(axes, places), shares, _index(image, axes, places))


def by_sampling(
    image: Tensor, axes: list[Axis], g: Tensor, *, nearest: bool = False, moves: bool = True
) -> tuple[Tensor, list[Tensor]]:
    """Gradients by the image, (N, C, pixels), and by the position along each axis. g: (N, C, L).
    moves: whether the latter are wanted.
    """
    by_image, slopes = image.zeros(), [axis.at.zeros() for axis in axes]
    for corner in corners(image, axes, nearest=nearest):
        back = g * row(times([corner.inside, *corner.shares]))
        by_image = by_image.op("ScatterElements", corner.index, back, axis=2, reduction="add")
        if moves and not nearest:
            read = (g * image.op("GatherElements", corner.index, axis=2)).sum([1])
            read = read.op("Reshape", corner.inside.dims(), allowzero=1) * corner.inside
            for k, c in enumerate(corner.bits):
                others = times([read, *corner.shares[:k], *corner.shares[k + 1 :]])
                slopes[k] = slopes[k] + (others if c else -others)
    return by_image, slopes


def _axes(node: Node, x: Tensor, grid: Tensor) -> list[Axis]:
    axes, stride = [], x.graph.ints([1])
    for k in range(x.rank - 2):
        size = x.size(x.rank - 1 - k)
        coordinate = grid.slice([k], [k + 1], [-1]).squeeze(-1)
        at, slope = _pixels(node, coordinate, size.cast_like(grid))
        axes.append(Axis(at, slope, size, stride))
        stride = stride * size
    return axes


def _pixels(node: Node, coordinate: Tensor, size: Tensor) -> tuple[Tensor, Tensor]:
    """From -1 … 1 to pixels, and the derivative. Padding moves them back inside."""
    aligned = bool(node.attribute("align_corners", 0))
    slope = (size - 1) * 0.5 if aligned else size * 0.5
    at = (coordinate + 1) * slope - (0.0 if aligned else 0.5)
    slope = slope.expand_like(at)
    padding = node.attribute("padding_mode", "zeros")
    if padding == "reflection":
        low = 0.0 if aligned else -0.5
        span = (size - 1).op("Max", size.graph.numbers(1, size.dtype)) if aligned else size
        far = (at - low).abs()
        folded = far - span * 2 * (far / (span * 2)).op("Floor") - span
        slope = -(slope * (at - low).sign() * folded.sign())
        at = span - folded.abs() + low
    if padding != "zeros":
        slope = ((at > 0) & (at < size - 1)).where(slope, 0.0)
        at = at.op("Max", at.graph.numbers(0, at.dtype)).op("Min", size - 1)
    return at, slope


def _share(part: Tensor, corner: int) -> Tensor:
    """A corner's weight along an axis. part: the distance from the lower one."""
    return part if corner else 1 - part


def _inside(axes: list[Axis], places: list[Tensor]) -> Tensor:
    """1 where the image has such a pixel, else 0."""
    checks = [
        (at >= 0) & (at < axis.size.cast_like(at)) for axis, at in zip(axes, places, strict=True)
    ]
    return reduce(and_, checks).cast_like(places[0])


def _index(x: Tensor, axes: list[Axis], places: list[Tensor]) -> Tensor:
    """The number of each pixel within its channel, for every channel: (N, C, L)."""
    graph = x.graph
    zero, number = graph.numbers(0, INT64), graph.numbers(0, INT64)
    for axis, at in zip(axes, places, strict=True):
        number = at.cast(INT64).op("Max", zero).op("Min", axis.size - 1) * axis.stride + number
    own = row(number)
    return own.op("Expand", graph.vector(x.size(0), x.size(1), 1))


def row(counts: Tensor) -> Tensor:
    """(N, *counts) as (N, 1, L)."""
    return counts.reshape(counts.size(0), 1, -1)


def times(factors: list[Tensor]) -> Tensor:
    return reduce(mul, factors)


def col2im(node: Node, g: Tensor) -> Gradients:
    """Columns of overlapping blocks are added to form an image: each reads its own block of g."""
    kernel = node.numbers(2, "block_shape")
    assert kernel is not None
    rank = len(kernel)
    pads = list(node.attribute("pads", [0] * 2 * rank))
    sizes = [fixed(g, 2 + axis) for axis in range(rank)]
    padded = [size + pads[i] + pads[rank + i] for i, size in enumerate(sizes)]
    strides = node.attribute("strides", [1] * rank)
    dilations = node.attribute("dilations", [1] * rank)
    index = _blocks(padded, kernel, strides, dilations)
    if any(pads):
        g = g.op("Pad", g.graph.ints(all_pads(pads, [*range(2, 2 + rank)], 2 + rank)))
    flat = g.reshape(g.size(0), g.size(1), prod(padded))
    columns = flat.op("Gather", g.graph.constant(index.reshape(-1)), axis=2)
    return [columns.op("Reshape", node.x.dims(), allowzero=1).known_like(node.x), None, None]


def _blocks(sizes: list[int], kernel: list[int], strides: list[int], dilations: list[int]) -> Array:
    """The number of each pixel of each block: (pixels of a block, blocks)."""
    starts = [
        np.arange(0, size - d * (k - 1), s)
        for size, k, s, d in zip(sizes, kernel, strides, dilations, strict=True)
    ]
    within = [np.arange(k) * d for k, d in zip(kernel, dilations, strict=True)]
    corners = np.ravel_multi_index(np.meshgrid(*starts, indexing="ij"), sizes).reshape(-1)
    offsets = np.ravel_multi_index(np.meshgrid(*within, indexing="ij"), sizes).reshape(-1)
    return np.asarray(offsets[:, None] + corners)


def affine_grid(node: Node, g: Tensor) -> Gradients:
    """The grid is a product of theta, (N, axes, axes + 1), and every position of a plain grid."""
    sizes = [fixed(node.y, axis) for axis in range(1, node.y.rank - 1)]
    aligned = node.attribute("align_corners", 0)
    axes = [_from_minus_one_to_one(size, aligned=bool(aligned)) for size in reversed(sizes)]
    plain = np.meshgrid(*reversed(axes), indexing="ij")[::-1]
    positions = np.stack([*plain, np.ones_like(plain[0])], -1).reshape(-1, len(sizes) + 1)
    rows = g.reshape(g.size(0), prod(sizes), len(sizes))
    by_theta = rows.swap(-1, -2) @ g.graph.numbers(positions, g.dtype)
    return [by_theta.known_like(node.x), None]


def _from_minus_one_to_one(size: int, *, aligned: bool) -> Array:
    if aligned:
        return np.linspace(-1, 1, size) if size > 1 else np.zeros(1)
    return (np.arange(size) * 2 + 1) / size - 1


RULES: dict[str, GradientRule] = {
    "AffineGrid": affine_grid,
    "Col2Im": col2im,
    "GridSample": grid_sample,
}
