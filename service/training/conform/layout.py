"""Operators that only move values, written in operators that have a gradient."""

from __future__ import annotations

from typing import Literal

import numpy as np
import onnx
from numpy.typing import NDArray

from service.training.forward.build import Builder
from service.training.forward.graph import attribute, input_at, int_attribute


def depth_to_space(b: Builder, node: onnx.NodeProto) -> str | None:
    """Blocks of channels become squares of pixels."""
    dims = b.graph.dims(node.input[0])
    if dims is None or None in dims[1:]:
        return None
    block = int_attribute(node, "blocksize", 1)
    channels, height, width = (size or 0 for size in dims[1:])
    deep = channels // block**2
    if attribute(node, "mode", b"DCR") == b"DCR":
        split = b.reshape(node.input[0], [-1, block, block, deep, height, width])
        moved = b.transpose(split, [0, 3, 4, 1, 5, 2])
    else:
        split = b.reshape(node.input[0], [-1, deep, block, block, height, width])
        moved = b.transpose(split, [0, 1, 4, 2, 5, 3])
    return b.reshape(moved, [-1, deep, height * block, width * block])


def space_to_depth(b: Builder, node: onnx.NodeProto) -> str | None:
    """Squares of pixels become blocks of channels."""
    dims = b.graph.dims(node.input[0])
    if dims is None or None in dims[1:]:
        return None
    block = int_attribute(node, "blocksize", 1)
    channels, height, width = (size or 0 for size in dims[1:])
    low, narrow = height // block, width // block
    split = b.reshape(node.input[0], [-1, channels, low, block, narrow, block])
    moved = b.transpose(split, [0, 3, 5, 1, 2, 4])
    return b.reshape(moved, [-1, channels * block**2, low, narrow])


def slice_backwards(b: Builder, node: onnx.NodeProto) -> str | None:
    """Slice with a negative step as Gather; the gradient of that Slice fails."""
    steps = b.graph.array(input_at(node, 4))
    dims = b.graph.dims(node.input[0])
    if steps is None or dims is None or min(int(step) for step in steps) > 0:
        return None
    starts, ends, axes = (b.graph.array(input_at(node, index)) for index in (1, 2, 3))
    if starts is None or ends is None:
        return None
    result = input_at(node, 0)
    axes = np.arange(len(starts)) if axes is None else axes
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        size = dims[int(axis)]
        if size is None:
            return None
        chosen = np.arange(size)[_bounds(int(start), int(end), int(step), size)]
        result = _gather(b, result, int(axis), chosen)
    return result


def pad(b: Builder, node: onnx.NodeProto) -> str | None:
    """Padding with values of the tensor itself as Gather; only constant padding has a gradient."""
    mode = attribute(node, "mode", b"constant")
    pads, dims = b.graph.array(input_at(node, 1)), b.graph.dims(node.input[0])
    if mode not in (b"edge", b"reflect", b"wrap") or pads is None or dims is None:
        return None
    given = b.graph.array(input_at(node, 3))
    axes = list(range(len(dims))) if given is None else [int(axis) for axis in given]
    result = input_at(node, 0)
    for index, axis in enumerate(axes):
        before, after = int(pads[index]), int(pads[index + len(axes)])
        size = dims[axis]
        if (before, after) == (0, 0):
            continue
        if size is None or min(before, after) < 0:
            return None
        assert isinstance(mode, bytes)
        chosen = np.pad(np.arange(size), (before, after), mode=_PAD_MODES[mode])
        result = _gather(b, result, axis, chosen)
    return result


_PAD_MODES: dict[bytes, Literal["edge", "reflect", "wrap"]] = {
    b"edge": "edge",
    b"reflect": "reflect",
    b"wrap": "wrap",
}


def _gather(b: Builder, name: str, axis: int, indices: NDArray[np.int64]) -> str:
    return b.op("Gather", name, b.constant(indices.astype(np.int64)), axis=axis)


def _bounds(start: int, end: int, step: int, size: int) -> slice:
    """ONNX's bounds as Python's: an end before the first element means none."""
    if step < 0 and end < -size:
        return slice(start, None, step)
    return slice(start, end, step)
