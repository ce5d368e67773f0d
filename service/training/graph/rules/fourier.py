"""Fourier transforms. They are linear, so the gradient goes through the transform's adjoint.

Source: ONNX's operator pages, DFT-20 and STFT-17. A complex number is a last axis of two.
"""

from __future__ import annotations

import numpy as np

from service.training.graph.node import GradientRule, Gradients, Node
from service.training.graph.places import fixed, put_back
from service.training.graph.tensor import Array, NotDifferentiable, Tensor

HAS_AXIS_INPUT = 20
"""The opset from which DFT takes its axis as an input."""


def dft(node: Node, g: Tensor) -> Gradients:
    """The opposite transform, without the inverse one's division by the length.

    Numbers that the transform left out, as onesided or too long, get zeros; a real input gets the
    real part.
    """
    x = node.x
    inverse = bool(node.attribute("inverse", 0))
    axis = x.axis(_axis(node))
    if node.attribute("onesided", 0):
        if inverse:
            return [_by_half(g, axis, fixed(x, axis)).known_like(x), None, None]
        g = put_back(g, axis, np.arange(fixed(node.y, axis)), _length(node, axis))
    back = _transform(g, axis, inverse=int(not inverse))
    count = g.size(axis).cast(g.dtype)
    back = back / count if inverse else back * count
    if node.optional(1) is not None:
        back = _resized(back, axis, fixed(x, axis))
    if x.shape is not None and x.shape[-1] == 1:
        back = _resized(back, x.rank - 1, 1)
    return [back.known_like(x), None, None]


def _axis(node: Node) -> int:
    if node.graph.opset < HAS_AXIS_INPUT:
        return int(node.attribute("axis", 1))
    axis = node.numbers(2, "axis")
    return -2 if axis is None else axis[0]


def _length(node: Node, axis: int) -> int:
    length = node.numbers(1, "dft_length")
    return fixed(node.x, axis) if length is None else length[0]


def _by_half(g: Tensor, axis: int, size: int) -> Tensor:
    """Of real numbers made from half a spectrum, where most bins stand for two."""
    length = fixed(g, axis)
    shares = np.full(length // 2 + 1, 2 / length)
    shares[0] = 1 / length
    if length % 2 == 0:
        shares[-1] = 1 / length
    half = _transform(g, axis, onesided=1)
    shares = shares.reshape(-1, *[1] * (half.rank - 1 - axis))
    return _resized(half * g.graph.numbers(shares, g.dtype), axis, size)


def _transform(g: Tensor, axis: int, **how: int) -> Tensor:
    if g.graph.opset < HAS_AXIS_INPUT:
        return g.op("DFT", axis=axis, **how)
    return g.op("DFT", None, g.graph.constant(np.array(axis)), **how)


def _resized(g: Tensor, axis: int, size: int) -> Tensor:
    """The first numbers along an axis, or zeros after all of them."""
    have = fixed(g, axis)
    if have <= size:
        return put_back(g, axis, np.arange(have), size)
    ints = g.graph.ints
    return g.op("Slice", ints([0]), ints([size]), ints([axis]))


def stft(node: Node, g: Tensor) -> Gradients:
    """Of a real signal, (N, samples, 1), a convolution whose kernels are windowed waves.

    g: (N, frames, bins, 2).
    """
    signal = node.x
    if signal.shape is None or signal.shape[-1] != 1:
        raise NotDifferentiable("its signal is not known to be real")
    step = node.numbers(1, "frame_step")
    assert step is not None, "STFT without its frame_step"
    frames, bins = fixed(node.y, 1), fixed(node.y, 2)
    length, window = _frame_length(node), node.optional(2)
    waves = g.graph.numbers(_waves(bins, length), g.dtype)
    rows = g.transpose(0, 2, 3, 1).reshape(signal.size(0), 2 * bins, frames)
    kernels = waves if window is None else waves * window
    spread = rows.op("ConvTranspose", kernels, strides=step).transpose(0, 2, 1)
    reached = np.arange((frames - 1) * step[0] + length)
    back = put_back(spread, 1, reached, fixed(signal, 1))
    return [back.known_like(signal), None, None, None]


def _frame_length(node: Node) -> int:
    """The window's, the given one, or that of the whole signal."""
    length, window = node.numbers(3, "frame_length"), node.optional(2)
    if length is not None:
        return length[0]
    return fixed(node.x, 1) if window is None else fixed(window, 0)


def _waves(bins: int, length: int) -> Array:
    """The real and the imaginary part of each bin: (2 bins, 1, length)."""
    phases = np.outer(np.arange(bins), np.arange(length)) * (-2 * np.pi / length)
    return np.stack([np.cos(phases), np.sin(phases)], 1).reshape(2 * bins, 1, length)


RULES: dict[str, GradientRule] = {"DFT": dft, "STFT": stft}
