"""RNN, GRU and LSTM in float64 for ONNX's reference evaluator."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx.reference.op_run import OpRun

Array = NDArray[Any]


class _Recurrent(OpRun):
    """One direction after the other, one step after the other."""

    gates: int
    activations: tuple[str, ...]

    def cell(
        self,
        x: Array,
        r: Array,
        b: Array,
        state: tuple[Array, Array],
        f: list[str],
        before: int | None,
    ) -> tuple[Array, Array]:
        """The next state. x: what the gates get of the input, with its bias."""
        raise NotImplementedError

    def _run(
        self,
        x: Array,
        w: Array,
        r: Array,
        b: Array | None = None,
        lengths: Array | None = None,
        h0: Array | None = None,
        c0: Array | None = None,
        activations: list[str] | None = None,
        direction: str | None = None,
        hidden_size: int | None = None,
        linear_before_reset: int | None = None,
        **_: Any,
    ) -> tuple[Array, ...]:
        steps, samples, _size = x.shape
        count, k, hidden = r.shape
        b = np.zeros((count, 2 * k)) if b is None else b
        lengths = np.full(samples, steps) if lengths is None else lengths
        y = np.zeros((steps, count, samples, hidden))
        last, cells = np.zeros((2, count, samples, hidden))
        for d in range(count):
            h = np.zeros((samples, hidden)) if h0 is None else h0[d]
            c = np.zeros((samples, hidden)) if c0 is None else c0[d]
            names = list(activations or self.activations * count)
            names = names[d * len(self.activations) : (d + 1) * len(self.activations)]
            turned = d == 1 or direction == "reverse"
            for t in reversed(range(steps)) if turned else range(steps):
                inputs = x[t] @ w[d].T + b[d, :k]
                new_h, new_c = self.cell(inputs, r[d], b[d, k:], (h, c), names, linear_before_reset)
                inside = (t < lengths)[:, None]
                h, c = np.where(inside, new_h, h), np.where(inside, new_c, c)
                y[t, d] = np.where(inside, h, 0)
            last[d], cells[d] = h, c
        return (y, last, cells)[: 3 if self.activations[2:] else 2]


def _activated(name: str, x: Array) -> Array:
    if name == "Relu":
        return np.maximum(x, 0)
    return np.tanh(x) if name == "Tanh" else 1 / (1 + np.exp(-x))


class RNN(_Recurrent):
    activations = ("Tanh",)

    def cell(
        self,
        x: Array,
        r: Array,
        b: Array,
        state: tuple[Array, Array],
        f: list[str],
        before: int | None,
    ) -> tuple[Array, Array]:
        return _activated(f[0], x + state[0] @ r.T + b), state[1]


class GRU(_Recurrent):
    activations = ("Sigmoid", "Tanh")

    def cell(
        self,
        x: Array,
        r: Array,
        b: Array,
        state: tuple[Array, Array],
        f: list[str],
        before: int | None,
    ) -> tuple[Array, Array]:
        h, _ = state
        (xz, xr, xn), (rz, rr, rn), (bz, br, bn) = np.split(x, 3, 1), np.split(r, 3), np.split(b, 3)
        z = _activated(f[0], xz + h @ rz.T + bz)
        reset = _activated(f[0], xr + h @ rr.T + br)
        inner = reset * (h @ rn.T + bn) if before else (reset * h) @ rn.T + bn
        return (1 - z) * _activated(f[1], xn + inner) + z * h, state[1]


class LSTM(_Recurrent):
    activations = ("Sigmoid", "Tanh", "Tanh")

    def cell(
        self,
        x: Array,
        r: Array,
        b: Array,
        state: tuple[Array, Array],
        f: list[str],
        before: int | None,
    ) -> tuple[Array, Array]:
        h, c = state
        i, o, forget, new = np.split(x + h @ r.T + b, 4, 1)
        c = _activated(f[0], forget) * c + _activated(f[0], i) * _activated(f[1], new)
        return _activated(f[0], o) * _activated(f[2], c), c
