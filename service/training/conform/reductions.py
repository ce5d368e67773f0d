"""Reductions and normalizations without a gradient, written in operators that have one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx

from service.training.forward.build import Builder
from service.training.forward.graph import (
    Graph,
    float_attribute,
    input_at,
    int_attribute,
    ints_attribute,
)


def reduce_max(b: Builder, node: onnx.NodeProto) -> str | None:
    """The first of the greatest, by TopK; ties give their gradient to the first."""
    return _extreme(b, node, largest=1)


def reduce_min(b: Builder, node: onnx.NodeProto) -> str | None:
    """The first of the smallest, by TopK."""
    return _extreme(b, node, largest=0)


def global_max_pool(b: Builder, node: onnx.NodeProto) -> str | None:
    """Greatest value of each channel."""
    dims = b.graph.dims(node.input[0])
    if dims is None:
        return None
    return _top(b, node.input[0], list(range(2, len(dims))), largest=1, keepdims=True)


def reduce_l1(b: Builder, node: onnx.NodeProto) -> str | None:
    """Sum of absolute values."""
    return _reduce_sum(b, node, b.op("Abs", node.input[0]))


def reduce_l2(b: Builder, node: onnx.NodeProto) -> str | None:
    """Root of the sum of squares."""
    total = reduce_sum_square(b, node)
    return None if total is None else b.op("Sqrt", total)


def reduce_sum_square(b: Builder, node: onnx.NodeProto) -> str | None:
    """Sum of squares."""
    return _reduce_sum(b, node, b.mul(node.input[0], node.input[0]))


def reduce_log_sum(b: Builder, node: onnx.NodeProto) -> str | None:
    """Logarithm of the sum."""
    total = _reduce_sum(b, node, node.input[0])
    return None if total is None else b.op("Log", total)


def instance_normalization(b: Builder, node: onnx.NodeProto) -> str | None:
    """Each channel of each sample to mean 0 and variance 1, then scale and bias."""
    x, scale, bias = node.input
    dims = b.graph.dims(x)
    if dims is None:
        return None
    axes = list(range(2, len(dims)))
    normal = _standardize(b, x, axes, float_attribute(node, "epsilon", 1e-5))
    channels = [-1] + [1] * len(axes)
    return b.add(b.mul(normal, b.reshape(scale, channels)), b.reshape(bias, channels))


def group_normalization(b: Builder, node: onnx.NodeProto) -> str | None:
    """Each group of channels to mean 0 and variance 1, then scale and bias (opset 21)."""
    x, scale, bias = node.input
    dims = b.graph.dims(x)
    groups = int_attribute(node, "num_groups", 1)
    if dims is None or None in dims[1:]:
        return None
    sizes = [size or 0 for size in dims[1:]]
    epsilon = float_attribute(node, "epsilon", 1e-5)
    grouped = b.reshape(x, [0, groups, math.prod(sizes) // groups])
    normal = _standardize(b, grouped, [2], epsilon)
    channels = [-1] + [1] * (len(sizes) - 1)
    whole = b.reshape(normal, [0, *sizes])
    return b.add(b.mul(whole, b.reshape(scale, channels)), b.reshape(bias, channels))


def mean_variance_normalization(b: Builder, node: onnx.NodeProto) -> str:
    """To mean 0 and variance 1 along axes."""
    axes = ints_attribute(node, "axes")
    return _standardize(b, node.input[0], axes if axes is not None else [0, 2, 3], 1e-9)


def lp_normalization(b: Builder, node: onnx.NodeProto) -> str:
    """Divided by the norm along an axis."""
    x = node.input[0]
    axis = int_attribute(node, "axis", -1)
    if int_attribute(node, "p", 2) == 1:
        return b.div(x, b.reduce("ReduceSum", b.op("Abs", x), [axis], keepdims=True))
    return b.div(x, b.op("Sqrt", b.reduce("ReduceSum", b.mul(x, x), [axis], keepdims=True)))


def axes_of(graph: Graph, node: onnx.NodeProto) -> list[int] | None:
    """Axes of a reduction counted from 0, from its input or attribute; None if unknown."""
    dims = graph.dims(node.input[0])
    if dims is None:
        return None
    name = input_at(node, 1)
    given = graph.array(name)
    if name and given is None:
        return None
    listed = ints_attribute(node, "axes") if given is None else [int(axis) for axis in given]
    if not listed:
        return [] if int_attribute(node, "noop_with_empty_axes", 0) else list(range(len(dims)))
    return sorted(axis % len(dims) for axis in listed)


def _reduce_sum(b: Builder, node: onnx.NodeProto, x: str) -> str | None:
    axes = axes_of(b.graph, node)
    if axes is None:
        return None
    return b.reduce("ReduceSum", x, axes, keepdims=_keeps(node)) if axes else x


def _keeps(node: onnx.NodeProto) -> bool:
    return bool(int_attribute(node, "keepdims", 1))


def _extreme(b: Builder, node: onnx.NodeProto, *, largest: int) -> str | None:
    axes = axes_of(b.graph, node)
    if not axes:
        return None
    return _top(b, node.input[0], axes, largest=largest, keepdims=_keeps(node))


def _top(b: Builder, x: str, axes: Sequence[int], *, largest: int, keepdims: bool) -> str | None:
    """Bring the axes to the end as one, take the first of TopK, and restore the shape."""
    dims = b.graph.dims(x)
    if dims is None or 0 in axes or None in dims[1:] or not axes:
        return None
    sizes = [size or 0 for size in dims]
    kept = [axis for axis in range(1, len(dims)) if axis not in axes]
    moved = b.transpose(x, [0, *kept, *axes])
    flat = b.reshape(
        moved, [-1, *(sizes[axis] for axis in kept), math.prod(sizes[axis] for axis in axes)]
    )
    top = b.op("TopK", flat, b.ints([1]), outputs=2, axis=-1, largest=largest, sorted=1)
    if keepdims:
        return b.reshape(
            top, [-1, *(1 if axis in axes else sizes[axis] for axis in range(1, len(dims)))]
        )
    return b.reshape(top, [-1, *(sizes[axis] for axis in kept)])


def _standardize(b: Builder, x: str, axes: Sequence[int], epsilon: float) -> str:
    centred = b.sub(x, b.reduce("ReduceMean", x, axes, keepdims=True))
    variance = b.reduce("ReduceMean", b.mul(centred, centred), axes, keepdims=True)
    return b.div(centred, b.op("Sqrt", b.add(variance, b.number(epsilon))))
