"""Undoes broadcasting: the gradient of a tensor that was repeated is the sum over its copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from service.training.graph.tensor import FLOATS, Dim, Tensor


def unbroadcast(
    gradient: Tensor, result: Tensor, source: Tensor, others: Sequence[Tensor | None] = ()
) -> Tensor:
    """The gradient, of the result's shape, summed to the shape of the broadcast operand.

    others: all operands, if the result's shape is theirs. The summed axes follow from the shapes if
    known, else they are computed at run time.
    """
    if source.shape == () and result.shape == ():
        return gradient
    if source.shape is None or result.shape is None:
        return _when_it_runs(gradient, source)
    lead = len(result.shape) - len(source.shape)
    pairs = list(zip(source.shape, result.shape[lead:], strict=True))
    repeating = [other for other in others if other is not None and other.name != source.name]
    if not all(
        _is_told(own, other) or (others and _repeat_nothing(repeating, len(pairs) - axis))
        for axis, (own, other) in enumerate(pairs)
    ):
        return _when_it_runs(gradient, source)
    if not lead and all(own != 1 or other == 1 for own, other in pairs):
        return gradient
    # Axes of one number on both sides, too: a sum over (rows, n, 1) along n alone is slow.
    single = [i for i, (own, _) in enumerate(pairs) if own == 1]
    axes = [*range(lead), *(lead + i for i in single)]
    return _sum(gradient, axes).unsqueeze(*single).known_like(source)


def _sum(gradient: Tensor, axes: list[int]) -> Tensor:
    """Over a matrix's rows, which a product with ones does in less time than ReduceSum."""
    if gradient.rank != 2 or axes != [0] or gradient.dtype not in FLOATS:
        return gradient.sum(axes)
    return _ones(gradient) @ gradient


def _ones(matrix: Tensor) -> Tensor:
    """One for each row, from an input that has as many if there is one: it is then made once."""
    graph, rows = matrix.graph, (matrix.shape or (None,))[0]
    if isinstance(rows, int):
        return graph.numbers(np.ones(rows), matrix.dtype)
    same = (fed for fed in graph.inputs if rows and (fed.shape or (None,))[0] == rows)
    return graph.numbers(1.0, matrix.dtype).op("Expand", next(same, matrix).dims(0, 1))


def _is_told(own: Dim, other: Dim) -> bool:
    """Do the sizes determine whether this axis was repeated?"""
    return isinstance(own, int) or (own is not None and own == other)


def _repeat_nothing(others: Sequence[Tensor], axis: int) -> bool:
    """Has each of them one number along an axis, counted from the last, which is 1?"""
    return all(
        other.shape is not None and (len(other.shape) < axis or other.shape[-axis] == 1)
        for other in others
    )


def _when_it_runs(gradient: Tensor, source: Tensor) -> Tensor:
    graph = gradient.graph
    to, own = gradient.dims(), source.dims()
    missing = to.op("Size") - own.op("Size")
    lead = missing.unsqueeze(0).op("Expand", graph.ints([1]))
    ones = graph.numbers(1, own.dtype).op("Expand", lead)
    differs = ~graph.op("Concat", ones, own, axis=0).equal(to)
    axes = differs.op("NonZero").squeeze(0)
    summed = gradient.op("ReduceSum", axes, keepdims=1, noop_with_empty_axes=1)
    return summed.op("Reshape", own, allowzero=1).known_like(source)
