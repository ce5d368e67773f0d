"""Undoes broadcasting: the gradient of a tensor that was repeated is the sum over its copies."""

from __future__ import annotations

from service.training.graph.tensor import Dim, Tensor


def unbroadcast(gradient: Tensor, result: Tensor, source: Tensor) -> Tensor:
    """The gradient, of the result's shape, summed to the shape of the broadcast operand.

    The summed axes follow from the shapes if known, else they are computed at run time.
    """
    if source.shape == () and result.shape == ():
        return gradient
    if source.shape is None or result.shape is None:
        return _when_it_runs(gradient, source)
    lead = len(result.shape) - len(source.shape)
    pairs = list(zip(source.shape, result.shape[lead:], strict=True))
    if not all(_is_told(own, other) for own, other in pairs):
        return _when_it_runs(gradient, source)
    repeated = [i for i, (own, other) in enumerate(pairs) if own == 1 and other != 1]
    axes = [*range(lead), *(lead + i for i in repeated)]
    if not axes:
        return gradient
    return gradient.sum(axes).unsqueeze(*repeated).known_like(source)


def _is_told(own: Dim, other: Dim) -> bool:
    """Do the sizes determine whether this axis was repeated?"""
    return isinstance(own, int) or (own is not None and own == other)


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
