"""Puts slices of a tensor back to their original positions along an axis."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from service.training.graph.passes.pads import all_pads
from service.training.graph.tensor import Array, NotDifferentiable, Tensor


def fixed(tensor: Tensor, axis: int) -> int:
    """The size of an axis. Raises NotDifferentiable if it is not known."""
    size = tensor.shape[axis] if tensor.shape is not None else None
    if not isinstance(size, int):
        raise NotDifferentiable(
            f'axis {axis} of "{tensor.name}" has no fixed size; export it with one'
        )
    return size


def put_back(g: Tensor, axis: int, places: Array, size: int) -> Tensor:
    """Zeros, except for the slices of g at `places`, which are distinct."""
    count = len(places)
    if count == size and (places == np.arange(size)).all():
        return g
    steps = {*np.diff(places).tolist()} or {1}
    if count and len(steps) == 1 and _can_spread(g) and (step := steps.pop()) >= 1:
        first = int(places[0])
        spread = _spread(g, axis, step)
        end = first + fixed(spread, axis)
        if end > size:
            spread = spread.slice([0], [size - first], [axis])
        return padded(spread, axis, first, max(0, size - end))
    source = np.full(size, count, np.int64)
    source[places] = np.arange(count)
    return padded(g, axis, 0, 1).op("Gather", g.graph.constant(source), axis=axis)


def _can_spread(g: Tensor) -> bool:
    return sum(not isinstance(size, int) for size in g.shape or (None, None)) <= 1


def _spread(g: Tensor, axis: int, step: int) -> Tensor:
    """With zeros after each slice, so that slices are `step` apart."""
    if step == 1:
        return g
    count, shape = fixed(g, axis), [*g.ranked]
    wide = padded(g.unsqueeze(axis + 1), axis + 1, 0, step - 1)
    shape[axis] = count * step
    return wide.reshape(*shape)


def put_back_computed(g: Tensor, axis: int, places: Tensor, size: Tensor) -> Tensor:
    """Like `put_back`, for places known only at run time. places, size: int64 vectors."""
    graph = g.graph
    zero, one = graph.numbers(0, size.dtype), graph.numbers(1, size.dtype)
    count = g.size(axis)
    numbers = graph.op("Range", zero, count.squeeze(0), one)
    source = count.op("Expand", size).op("ScatterElements", places, numbers)
    return padded(g, axis, 0, 1).op("Gather", source, axis=axis)


def add_back(g: Tensor, axis: int, places: Array, size: int) -> Tensor:
    """Like `put_back`, but adding slices that share a place: a product with a 0/1 matrix."""
    if len(np.unique(places)) == len(places):
        return put_back(g, axis, places, size)
    return along(g, axis, places[:, None] == np.arange(size))


def along(g: Tensor, axis: int, matrix: Array) -> Tensor:
    """Every row along an axis times a constant matrix."""
    numbers = g.graph.numbers
    if axis == g.rank - 1:
        return g @ numbers(matrix, g.dtype)
    if axis == g.rank - 2:
        return numbers(matrix.T, g.dtype) @ g
    return (g.swap(axis, -1) @ numbers(matrix, g.dtype)).swap(axis, -1)


def joined(parts: Sequence[Tensor], axis: int) -> Tensor:
    """Their concatenation; of a single one itself."""
    return parts[0] if len(parts) == 1 else parts[0].graph.op("Concat", *parts, axis=axis)


def padded(g: Tensor, axis: int, before: int, after: int) -> Tensor:
    """With zeros before and after along one axis; pads of several axes are one operator."""
    if not before and not after:
        return g
    graph = g.graph
    source, pads = graph.pads.get(g.name, (g, [0] * (2 * g.rank)))
    own = all_pads([before, after], [axis], g.rank)
    pads = [first + second for first, second in zip(pads, own, strict=True)]
    result = source.op("Pad", graph.ints(pads))
    graph.pads[result.name] = source, pads
    graph.placed[result.name] = (g, axis, before)
    return result


def total(parts: Sequence[Tensor]) -> Tensor:
    """The sum of gradients; if slices fill an axis side by side, their concatenation."""
    graph = parts[0].graph
    placed = sorted(
        (graph.placed[part.name] for part in parts if part.name in graph.placed),
        key=lambda place: place[2],
    )
    axes = {axis for _, axis, _ in placed}
    if len(parts) == 1 or len(placed) < len(parts) or len(axes) > 1:
        return sum(parts[1:], parts[0])
    axis, end = axes.pop(), 0
    for slice_, _, begin in placed:
        size = slice_.shape[axis] if slice_.shape is not None else None
        if begin != end or not isinstance(size, int):
            return sum(parts[1:], parts[0])
        end += size
    if parts[0].shape is None or parts[0].shape[axis] != end:
        return sum(parts[1:], parts[0])
    return graph.op("Concat", *(slice_ for slice_, _, _ in placed), axis=axis)
