"""DeformConv, a convolution whose kernel positions are read where offsets move them.

Source: ONNX's operator page, DeformConv-19, and Zhu et al., Deformable ConvNets v2, 2018. At
a pixel itself, where the slope by the offset jumps, it is that to the next pixel, as in
torchvision.
"""

from __future__ import annotations

from math import prod

import numpy as np

from service.training.graph.kernel_windows import windows_of
from service.training.graph.node import GradientRule, Gradients, Node
from service.training.graph.rules.sampling import Axis, by_sampling, corners, row, times
from service.training.graph.tensor import Tensor


def deform_conv(node: Node, g: Tensor) -> Gradients:
    """x: (N, C, *sizes). weight: (M, C / group, *kernel). g: (N, M, *counts).

    offset: (N, parts · positions · axes, *counts), mask: (N, parts · positions, *counts), where
    each of the parts, `offset_group`, is for C / parts channels. Sizes and counts must be fixed.
    """
    x, weight, offset, mask = node.x, node.given(1), node.given(2), node.optional(4)
    groups, parts = node.attribute("group", 1), node.attribute("offset_group", 1)
    (channels, *sizes), (outputs, *counts) = x.whole_from(1), node.y.whole_from(1)
    positions, length = prod(weight.whole[2:]), prod(counts)
    # What the kernel multiplies is computed anew, by part, and multiplied by group.
    image = x.reshape(-1, channels // parts, prod(sizes))
    by_part = (-1, channels // parts, positions * length)
    by_group = (-1, groups, channels // groups * positions, length)
    axes = _axes(node, offset, positions, counts)
    open_to = None if mask is None else mask.reshape(-1, 1, positions * length)
    products = g.reshape(-1, groups, outputs // groups, length)
    kernel = weight.reshape(groups, outputs // groups, -1)
    back = (kernel.swap(-1, -2) @ products).reshape(*by_part)
    by_image, slopes = by_sampling(image, axes, back if open_to is None else back * open_to)
    by_weight = by_mask = None
    if node.wants(1) or node.wants(4):
        read = _read(image, axes)
        if mask is not None:
            by_mask = (read * back).sum([1]).reshape_like(mask)
        columns = (read if open_to is None else read * open_to).reshape(*by_group)
        by_weight = (products @ columns.swap(-1, -2)).sum([0]).reshape_like(weight)
    by_axis = [slope.reshape(-1, parts, positions, 1, length) for slope in slopes]
    return [
        by_image.reshape_like(x),
        by_weight,
        g.graph.op("Concat", *by_axis, axis=3).reshape_like(offset),
        g.sum([0, *range(2, g.rank)]) if node.wants(3) else None,
        by_mask,
    ]


def _axes(node: Node, offset: Tensor, positions: int, counts: list[int]) -> list[Axis]:
    """Where each kernel position of each window reads."""
    kernel = node.given(1).whole[2:]
    windows = windows_of(node, kernel, node.x, node.y)
    graph, rank = offset.graph, len(counts)
    moved = offset.reshape(-1, positions, rank, prod(counts))
    stride = 1
    axes: list[Axis] = []
    for k in reversed(range(rank)):
        of_kernel = np.indices(kernel)[k].reshape(-1, 1) * windows.dilations[k]
        of_window = np.indices(counts)[k].reshape(1, -1) * windows.strides[k]
        still = graph.numbers(of_kernel + of_window - windows.befores[k], offset.dtype)
        at = moved.slice([k], [k + 1], [2]).squeeze(2) + still
        size = node.x.whole_from(2)[k]
        axes.insert(
            0, Axis(at, graph.numbers(1, at.dtype), graph.ints([size]), graph.ints([stride]))
        )
        stride *= size
    return axes


def _read(image: Tensor, axes: list[Axis]) -> Tensor:
    """The pixels at the positions, (N, C, L), between four of them where these are between."""
    total = image.graph.numbers(0, image.dtype)
    for corner in corners(image, axes):
        weight = row(times([corner.inside, *corner.shares]))
        total = image.op("GatherElements", corner.index, axis=2) * weight + total
    return total


RULES: dict[str, GradientRule] = {"DeformConv": deform_conv}
