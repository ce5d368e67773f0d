"""Padding that the engine's gradients get wrong, and AveragePool, whose gradient fails.

Measured with 1.19.2: the gradient of Conv with `auto_pad` is wrong without a word, and that of
AveragePool gives an empty tensor when the batch axis is dynamic.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import onnx
from numpy.typing import NDArray

from service.training.conform.draft import Draft
from service.training.forward.build import Builder
from service.training.forward.graph import Graph, attribute, int_attribute, ints_attribute

Vector = NDArray[np.float32]


def mend(draft: Draft) -> None:
    """Write `auto_pad` as pads."""
    nodes = [
        node
        for node in draft.path("Conv", "MaxPool", "AveragePool")
        if attribute(node, "auto_pad", b"NOTSET") != b"NOTSET"
    ]
    for node in nodes:
        pads = _automatic_pads(draft.graph, node)
        if pads is None:
            draft.refuse(node, "pads automatically an input of unknown size; export it fixed")
            continue
        kept = [a for a in node.attribute if a.name not in ("auto_pad", "pads")]
        del node.attribute[:]
        node.attribute.extend([*kept, onnx.helper.make_attribute("pads", pads)])
    draft.note(nodes, "automatic padding was written as pads, whose gradient is right")


def average_pool(b: Builder, node: onnx.NodeProto) -> str | None:
    """A convolution of each channel with equal weights, divided by how many values it saw."""
    dims = b.graph.dims(node.input[0])
    kernel = ints_attribute(node, "kernel_shape")
    plain = attribute(node, "auto_pad", b"NOTSET") == b"NOTSET"
    if dims is None or None in dims[1:] or kernel is None or not plain:
        return None
    if int_attribute(node, "ceil_mode", 0):
        return None
    axes = len(kernel)
    strides = ints_attribute(node, "strides") or [1] * axes
    dilations = ints_attribute(node, "dilations") or [1] * axes
    pads = ints_attribute(node, "pads") or [0] * (2 * axes)
    channels = dims[1] or 0
    weights = b.constant(np.full((channels, 1, *kernel), 1 / math.prod(kernel), np.float32))
    result = b.op(
        "Conv",
        node.input[0],
        weights,
        group=channels,
        kernel_shape=kernel,
        strides=strides,
        dilations=dilations,
        pads=pads,
    )
    if not any(pads) or int_attribute(node, "count_include_pad", 0):
        return result
    share = np.ones((), np.float32)
    for axis, size in enumerate(dims[2:]):
        values = np.ones(size or 0, np.float32)
        padded = np.pad(values, (pads[axis], pads[axis + axes]))
        part = _share(padded, kernel[axis], stride=strides[axis], dilation=dilations[axis])
        share = np.multiply.outer(share, part)
    return b.div(result, b.constant(share.astype(np.float32)))


def _share(padded: Vector, kernel: int, *, stride: int, dilation: int) -> Vector:
    """Part of each window along one axis that lies on ones, not on the padding's zeros."""
    span = dilation * (kernel - 1) + 1
    starts = range(0, len(padded) - span + 1, stride)
    return np.array([padded[s : s + span : dilation].mean() for s in starts], np.float32)


def _automatic_pads(graph: Graph, node: onnx.NodeProto) -> list[int] | None:
    dims = graph.dims(node.input[0])
    kernel = ints_attribute(node, "kernel_shape")
    if kernel is None and node.op_type == "Conv":
        weight = graph.dims(node.input[1])
        kernel = None if weight is None or None in weight else [n or 0 for n in weight[2:]]
    if dims is None or None in dims[1:] or kernel is None:
        return None
    mode = attribute(node, "auto_pad")
    if mode == b"VALID":
        return [0] * (2 * len(kernel))
    strides = ints_attribute(node, "strides") or [1] * len(kernel)
    dilations = ints_attribute(node, "dilations") or [1] * len(kernel)
    sizes = [size or 0 for size in dims[2:]]
    totals = [
        max(0, (-(-size // s) - 1) * s + d * (k - 1) + 1 - size)
        for size, k, s, d in zip(sizes, kernel, strides, dilations, strict=True)
    ]
    return _share_out(totals, at_end=mode == b"SAME_UPPER")


def _share_out(totals: Sequence[int], *, at_end: bool) -> list[int]:
    small, large = [t // 2 for t in totals], [t - t // 2 for t in totals]
    return [*small, *large] if at_end else [*large, *small]
