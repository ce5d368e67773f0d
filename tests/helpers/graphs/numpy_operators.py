"""Operators in float64 for ONNX's reference evaluator, which has them slowly, in float32 or not."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray
from numpy_recurrent import GRU, LSTM, RNN
from numpy_sampling import AffineGrid, DeformConv, GridSample
from onnx.reference.op_run import OpRun
from onnx.reference.ops import op_scan

Array = NDArray[Any]
Ints = list[int] | None


class Erf(OpRun):
    def _run(self, x: Array) -> tuple[Array]:
        return (np.vectorize(math.erf, otypes=[x.dtype])(x),)


class Gelu(OpRun):
    def _run(self, x: Array, approximate: str | None = None) -> tuple[Array]:
        if approximate == "tanh":
            inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
            return (x * 0.5 * (1 + np.tanh(inner)),)
        return (x * 0.5 * (1 + np.vectorize(math.erf, otypes=[x.dtype])(x / math.sqrt(2))),)


class GlobalLpPool(OpRun):
    def _run(self, x: Array, p: int | None = None) -> tuple[Array]:
        axes = tuple(range(2, x.ndim))
        return ((np.abs(x) ** (p or 2)).sum(axes, keepdims=True) ** (1 / (p or 2)),)


class LRN(OpRun):
    def _run(
        self,
        x: Array,
        alpha: float | None = None,
        beta: float | None = None,
        bias: float | None = None,
        size: int = 1,
    ) -> tuple[Array]:
        total = np.zeros_like(x)
        for c in range(x.shape[1]):
            near = slice(max(0, c - (size - 1) // 2), c + math.ceil((size - 1) / 2) + 1)
            total[:, c] = (x[:, near] ** 2).sum(1)
        return (x / (bias + alpha / size * total) ** beta,)


class Conv(OpRun):
    def _run(
        self,
        x: Array,
        w: Array,
        b: Array | None = None,
        auto_pad: str | None = None,
        dilations: Ints = None,
        group: int | None = None,
        kernel_shape: Ints = None,
        pads: Ints = None,
        strides: Ints = None,
    ) -> tuple[Array]:
        n = w.ndim - 2
        strides, dilations = list(strides or [1] * n), list(dilations or [1] * n)
        pads = _pads(x, w, auto_pad, pads, strides, dilations)
        x = np.pad(x, [(0, 0), (0, 0), *((pads[i], pads[n + i]) for i in range(n))])
        spans = [(w.shape[2 + i] - 1) * dilations[i] + 1 for i in range(n)]
        counts = [(x.shape[2 + i] - spans[i]) // strides[i] + 1 for i in range(n)]
        groups = group or 1
        inputs, weights = np.split(x, groups, 1), np.split(w, groups, 0)
        result = [np.zeros((len(x), len(v), *counts), x.dtype) for v in weights]
        for place in itertools.product(*map(range, w.shape[2:])):
            seen = tuple(
                slice(p * d, p * d + s * (c - 1) + 1, s)
                for p, d, s, c in zip(place, dilations, strides, counts, strict=True)
            )
            for out, v, u in zip(result, inputs, weights, strict=True):
                part = v[(slice(None), slice(None), *seen)]
                out += np.einsum("ni...,oi->no...", part, u[(slice(None), slice(None), *place)])
        whole = np.concatenate(result, 1)
        return (whole if b is None else whole + b.reshape(-1, *[1] * n),)


class ConvTranspose(OpRun):
    def _run(
        self,
        x: Array,
        w: Array,
        b: Array | None = None,
        auto_pad: str | None = None,
        dilations: Ints = None,
        group: int | None = None,
        kernel_shape: Ints = None,
        output_padding: Ints = None,
        output_shape: Ints = None,
        pads: Ints = None,
        strides: Ints = None,
    ) -> tuple[Array]:
        n = w.ndim - 2
        strides, dilations = list(strides or [1] * n), list(dilations or [1] * n)
        extra = list(output_padding or [0] * n)
        sizes = [
            strides[i] * (x.shape[2 + i] - 1) + extra[i] + (w.shape[2 + i] - 1) * dilations[i] + 1
            for i in range(n)
        ]
        pads = list(pads or [0] * (2 * n))
        if output_shape:
            totals = [size - wish for size, wish in zip(sizes, output_shape, strict=True)]
            small = [t // 2 for t in totals]
            large = [t - t // 2 for t in totals]
            pads = [*small, *large] if auto_pad == "SAME_UPPER" else [*large, *small]
        groups = group or 1
        parts = []
        for v, u in zip(np.split(x, groups, 1), np.split(w, groups, 0), strict=True):
            out = np.zeros((len(x), u.shape[1], *sizes), x.dtype)
            for place in itertools.product(*map(range, w.shape[2:])):
                seen = tuple(
                    slice(p * d, p * d + s * (c - 1) + 1, s)
                    for p, d, s, c in zip(place, dilations, strides, x.shape[2:], strict=True)
                )
                part = np.einsum("ni...,io->no...", v, u[(slice(None), slice(None), *place)])
                out[(slice(None), slice(None), *seen)] += part
            parts.append(out)
        kept = tuple(slice(pads[i], sizes[i] - pads[n + i]) for i in range(n))
        whole = np.concatenate(parts, 1)[(slice(None), slice(None), *kept)]
        return (whole if b is None else whole + b.reshape(-1, *[1] * n),)


def _pads(
    x: Array, w: Array, auto_pad: str | None, pads: Ints, strides: list[int], dilations: list[int]
) -> list[int]:
    n = w.ndim - 2
    if auto_pad not in ("SAME_UPPER", "SAME_LOWER"):
        return list(pads or [0] * (2 * n))
    totals = [
        max(
            (math.ceil(x.shape[2 + i] / strides[i]) - 1) * strides[i]
            + (w.shape[2 + i] - 1) * dilations[i]
            + 1
            - x.shape[2 + i],
            0,
        )
        for i in range(n)
    ]
    small, large = [t // 2 for t in totals], [t - t // 2 for t in totals]
    return [*small, *large] if auto_pad == "SAME_UPPER" else [*large, *small]


class MaxPool(OpRun):
    def _run(
        self,
        x: Array,
        auto_pad: str | None = None,
        ceil_mode: int | None = None,
        dilations: Ints = None,
        kernel_shape: Ints = None,
        pads: Ints = None,
        storage_order: int | None = None,
        strides: Ints = None,
    ) -> tuple[Array, Array]:
        n = x.ndim - 2
        assert kernel_shape is not None
        strides, dilations = list(strides or [1] * n), list(dilations or [1] * n)
        pads = list(pads or [0] * (2 * n))
        spans = [(k - 1) * d + 1 for k, d in zip(kernel_shape, dilations, strict=True)]
        rooms = [x.shape[2 + i] + pads[i] + pads[n + i] - spans[i] for i in range(n)]
        counts = [
            (-(-r // s) if ceil_mode else r // s) + 1 for r, s in zip(rooms, strides, strict=True)
        ]
        places = np.arange(x.size).reshape(x.shape)
        widths = [(0, 0), (0, 0), *((pads[i], pads[n + i] + strides[i]) for i in range(n))]
        x = np.pad(x, widths, constant_values=-np.inf)
        places = np.pad(places, widths, constant_values=-1)
        best = np.full((*x.shape[:2], *counts), -np.inf)
        where = np.zeros(best.shape, np.int64)
        for place in itertools.product(*map(range, kernel_shape)):
            seen = tuple(
                slice(p * d, p * d + s * (c - 1) + 1, s)
                for p, d, s, c in zip(place, dilations, strides, counts, strict=True)
            )
            part = x[(slice(None), slice(None), *seen)]
            more = part > best
            where = np.where(more, places[(slice(None), slice(None), *seen)], where)
            best = np.where(more, part, best)
        return best, where


class Pad(OpRun):
    def _run(
        self,
        x: Array,
        pads: Array,
        value: Array | None = None,
        axes: Array | None = None,
        mode: str | None = None,
    ) -> tuple[Array]:
        chosen = range(x.ndim) if axes is None else axes
        widths = [(0, 0)] * x.ndim
        for axis, *width in zip(chosen, *np.split(pads, 2), strict=True):
            widths[axis] = (int(width[0]), int(width[1]))
        kept = tuple(
            slice(max(-b, 0), n - max(-a, 0)) for n, (b, a) in zip(x.shape, widths, strict=True)
        )
        filled = [(max(b, 0), max(a, 0)) for b, a in widths]
        if mode in (None, "constant"):
            return (np.pad(x[kept], filled, constant_values=0 if value is None else value),)
        return (np.pad(x[kept], filled, mode=mode),)


class Scan(op_scan.Scan):
    """In either direction."""

    def __init__(self, node: Any, run_params: Any) -> None:
        back = {"scan_input_directions": False, "scan_output_directions": False}
        for attribute in node.attribute:
            if attribute.name in back:
                back[attribute.name] = any(attribute.ints)
                attribute.ints[:] = [0] * len(attribute.ints)
        self._turned = any(back.values())
        super().__init__(node, run_params)

    def _run(self, *args: Array, **more: Any) -> tuple[Array, ...]:
        if not self._turned:
            return super()._run(*args, **more)
        states = len(args) - self.num_scan_inputs
        turned = [a if i < states else a[::-1] for i, a in enumerate(args)]
        results = super()._run(*turned, **more)
        return tuple(a if i < states else a[::-1] for i, a in enumerate(results))


OPERATORS = [
    GRU,
    LRN,
    LSTM,
    RNN,
    AffineGrid,
    Conv,
    ConvTranspose,
    DeformConv,
    Erf,
    Gelu,
    GlobalLpPool,
    GridSample,
    MaxPool,
    Pad,
    Scan,
]
