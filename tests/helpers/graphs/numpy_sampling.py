"""GridSample and AffineGrid in float64 for ONNX's reference evaluator, which has float32."""

from __future__ import annotations

import itertools
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
            low = [int(np.floor(at)) for at in point]
            for corner in itertools.product((0, 1), repeat=len(point)):
                pixel = [a + c for a, c in zip(low, corner, strict=True)]
                if all(0 <= a < size for a, size in zip(pixel, x.shape[2:], strict=True)):
                    near = [1 - abs(at - a) for at, a in zip(point, pixel, strict=True)]
                    y[(n, slice(None), *where)] += x[(n, slice(None), *pixel)] * np.prod(near)
        return (y,)


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
