"""GridSample, DeformConv and AffineGrid in float64; ONNX's reference evaluator has float32."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx.reference.op_run import OpRun

Array = NDArray[Any]


class GridSample(OpRun):
    def _run(
        self,
        x: Array,
        grid: Array,
        mode: str | None = None,
        padding_mode: str | None = None,
        align_corners: int | None = None,
    ) -> tuple[Array]:
        assert mode == "linear"
        y = np.zeros((*x.shape[:2], *grid.shape[1:-1]), x.dtype)
        for n, *where in np.ndindex(grid.shape[:-1]):
            point = [
                _pixel(at, size, aligned=bool(align_corners), padding=padding_mode)
                for at, size in zip(grid[(n, *where)][::-1], x.shape[2:], strict=True)
            ]
            y[(n, slice(None), *where)] = _between(x[n], point)
        return (y,)


class DeformConv(OpRun):
    def _run(
        self,
        x: Array,
        weight: Array,
        offset: Array,
        bias: Array | None = None,
        mask: Array | None = None,
        dilations: list[int] | None = None,
        group: int | None = None,
        kernel_shape: list[int] | None = None,
        offset_group: int | None = None,
        pads: list[int] | None = None,
        strides: list[int] | None = None,
    ) -> tuple[Array]:
        group, parts, counts = group or 1, offset_group or 1, offset.shape[2:]
        kernel, rank = weight.shape[2:], len(counts)
        strides, dilations, pads = (
            strides or [1] * rank,
            dilations or [1] * rank,
            pads or [0] * rank,
        )
        offset = offset.reshape(len(x), parts, *kernel, rank, *counts)
        shares = np.ones((len(x), parts, *kernel, *counts)) if mask is None else mask
        shares = shares.reshape(len(x), parts, *kernel, *counts)
        y = np.zeros((len(x), len(weight), *counts), x.dtype)
        by_channel, by_output = x.shape[1] // parts, len(weight) // group
        for n, c, *at in np.ndindex(x.shape[:2] + kernel + counts):
            tap, where = at[:rank], at[rank:]
            point = np.multiply(where, strides) - pads[:rank] + np.multiply(tap, dilations)
            point = point + offset[(n, c // by_channel, *tap, slice(None), *where)]
            read = _between(x[n, c : c + 1], point)[0] * shares[(n, c // by_channel, *at)]
            first = c // weight.shape[1] * by_output
            of_outputs = slice(first, first + by_output)
            y[(n, of_outputs, *where)] += weight[(of_outputs, c % weight.shape[1], *tap)] * read
        return (y if bias is None else y + bias.reshape(1, -1, *[1] * rank),)


def _between(x: Array, point: Sequence[float]) -> Array:
    """The channels of a picture at a point between its pixels, outside of which there are zeros."""
    value = np.zeros(len(x), x.dtype)
    low = [int(np.floor(at)) for at in point]
    for corner in itertools.product((0, 1), repeat=len(low)):
        pixel = [a + c for a, c in zip(low, corner, strict=True)]
        if all(0 <= a < size for a, size in zip(pixel, x.shape[1:], strict=True)):
            near = [1 - abs(at - a) for at, a in zip(point, pixel, strict=True)]
            value += x[(slice(None), *pixel)] * np.prod(near)
    return value


def _pixel(at: float, size: int, *, aligned: bool, padding: str | None) -> float:
    at = (at + 1) / 2 * (size - 1) if aligned else ((at + 1) * size - 1) / 2
    low, high = (0, size - 1) if aligned else (-0.5, size - 0.5)
    while padding == "reflection" and size > 1 and not low <= at <= high:
        at = 2 * low - at if at < low else 2 * high - at
    return at if padding == "zeros" else min(max(at, 0), size - 1)


class AffineGrid(OpRun):
    def _run(self, theta: Array, size: Array, align_corners: int | None = None) -> tuple[Array]:
        axes = [
            np.linspace(-1, 1, n) if align_corners else (np.arange(n) + 0.5) / n * 2 - 1
            for n in size[2:]
        ]
        if align_corners:
            axes = [axis if len(axis) > 1 else np.zeros(1) for axis in axes]
        y = np.zeros((*(size[0], *size[2:]), theta.shape[1]), theta.dtype)
        for n, *where in np.ndindex(y.shape[:-1]):
            at = [axis[i] for axis, i in zip(axes, where, strict=True)][::-1]
            y[(n, *where)] = theta[n] @ np.array([*at, 1])
        return (y,)
