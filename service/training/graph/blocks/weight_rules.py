"""Gradients of a convolution's weights in the runtime's own layout.

Products contract samples and positions. Which form of them is fastest depends on the sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from msgspec.structs import replace

from service.training.graph.blocks.layout import (
    block_op,
    from_blocks,
    is_merged,
    padded,
    sizes,
)
from service.training.graph.kernel_windows import WindowShape, bordered, shifted
from service.training.graph.places import fixed, joined
from service.training.graph.rules.matrix import multiply
from service.training.graph.tensor import Tensor, product

MANY_PLACES = 16
"""From this many positions of a sample on, a convolution whose kernels are the gradients is faster
than a product for each place of the kernel, if that has several and the stride is 1."""
AT_ONCE = 288
"""Positions of such a kernel. Four blocks of it, for eight samples, stay in a cache of 1 MB: 64
channels to 64 over 32 by 32 positions took a third of the time of kernels of all positions."""
ABREAST = 4
"""Blocks of results that the runtime computes at once; with one it is less than half as fast."""


def by_weight(x: Tensor, g: Tensor, weight: Tensor, windows: WindowShape, groups: int) -> Tensor:
    """(outs, ins / groups, rows, columns), by the form that is fastest for the sizes."""
    outs, ins, *_ = weight.whole
    if ins == 1 and outs == groups:
        return _depthwise(x, g, weight, windows)
    if groups > 1:
        return _grouped(x, g, weight, windows, groups)
    if fixed(x, 1) == ins < g.graph.layout.block:
        return _from_swapped(_swapped(x, g, windows), weight)
    places = product(sizes(g)[2:])
    if set(windows.strides) == {1} and places >= MANY_PLACES and not windows.is_point:
        return _by_convolution(x, g, weight, windows)
    return _by_products(x, g, weight, windows)


def _by_convolution(x: Tensor, g: Tensor, weight: Tensor, windows: WindowShape) -> Tensor:
    """With kernels of g or, if they have more blocks, of x, for stride 1."""
    outs, ins, *kernel = weight.whole
    before = [s - 1 - p for s, p in zip(windows.spans * 2, windows.pads, strict=True)]
    blocks = [min(size // g.graph.layout.block, ABREAST) for size in (fixed(g, 1), fixed(x, 1))]
    if blocks[0] >= blocks[1] or min(before) < 0:
        return _from_swapped(_swapped(from_blocks(x, ins), g, windows), weight)
    turned = _swapped(from_blocks(g, outs), x, replace(windows, pads=tuple(before)))
    flipped = turned.op("Gather", g.graph.ints(range(product(kernel))[::-1]), axis=2)
    return from_blocks(flipped.reshape(outs, fixed(x, 1), *kernel), ins).reshape_like(weight)


def _by_products(x: Tensor, g: Tensor, weight: Tensor, windows: WindowShape) -> Tensor:
    """One for each place of the kernel."""
    outs, ins, *_ = weight.whole
    flat = from_blocks(g, outs, last=True).reshape(-1, outs)
    seen = bordered(from_blocks(x, ins, last=True), windows, first=1)
    rows = [view.reshape(-1, ins) for view in shifted(seen, windows, sizes(g)[2:], first=1)]
    if len(rows) == 1:
        return multiply(flat, rows[0], ta=True).reshape_like(weight)
    parts = [multiply(row, flat, ta=True) for row in rows]
    return _as_weights(joined(parts, 0), weight)


def _as_weights(products: Tensor, weight: Tensor) -> Tensor:
    """(places·ins, outs) as weights of a convolution."""
    outs, ins, *kernel = weight.whole
    block, places = weight.graph.layout.block, product(kernel)
    if outs % block:
        return products.reshape(places, ins, outs).transpose(2, 1, 0).reshape_like(weight)
    split = products.reshape(places, ins, outs // block, block).transpose(2, 1, 0, 3)
    rows = split.reshape(1, outs, ins * places, 1)
    plain = block_op(weight.graph, "ReorderOutput", rows.whole, rows, channels=outs)
    return plain.reshape_like(weight)


def _swapped(x: Tensor, g: Tensor, windows: WindowShape) -> Tensor:
    """A convolution of x with g as its kernel: channels as samples, and samples as channels.

    x: as ONNX has it, as the runtime reads fewer channels than a block. Samples are fewer.
    Returns (channels of x, blocks of g, places of the kernel, block).
    """
    graph, block = g.graph, g.graph.layout.block
    ins, (_, wide, rows, columns) = fixed(x, 1), sizes(g)
    graph.counts_rows = True
    seen = bordered(x.swap(0, 1), windows)
    kernels = g.reshape(-1, wide // block, rows, columns * block).swap(0, 1)
    extents = _extents(windows, sizes(x)[2:], (rows, columns))
    parts = []
    bands = -(-rows // max(1, AT_ONCE // columns))
    if bands > 1:
        extents[0] = windows.kernel[0]
    for first, last in pairwise(rows * band // bands for band in range(bands + 1)):
        own, kernel = seen, kernels
        if bands > 1:
            begin = first * windows.strides[0]
            end = begin + (last - first - 1) * windows.strides[0] + windows.spans[0]
            own, kernel = seen.slice([begin], [end], [2]), kernels.slice([first], [last], [2])
        part = block_op(
            graph,
            "Conv",
            (ins, wide, *extents),
            own,
            kernel.op("Reshape", graph.vector(wide, -1, last - first, columns)),
            kernel_shape=[last - first, columns],
            strides=list(windows.dilations),
            dilations=list(windows.strides),
            pads=[0, 0, 0, 0],
        )
        parts.append(part)
    gradient = sum(parts[1:], parts[0]).reshape(ins, wide // block, *extents, block)
    if extents != list(windows.kernel):
        gradient = gradient.slice([0, 0], list(windows.kernel), [2, 3])
    return gradient.reshape(ins, wide // block, product(windows.kernel), block)


def _from_swapped(swapped: Tensor, weight: Tensor) -> Tensor:
    """With the weights' axes."""
    outs, ins, *kernel = weight.whole
    blocks = swapped.swap(0, 1).reshape(
        1, padded(outs, weight.graph.layout.block), ins * product(kernel), 1
    )
    return from_blocks(blocks, outs).reshape_like(weight)


def _extents(windows: WindowShape, whole: Sequence[int], counts: Sequence[int]) -> list[int]:
    """Sizes of a convolution of x, with its pads, by g, whose strides and dilations are swapped."""
    extents = []
    for i in range(2):
        size = whole[i] + windows.pads[i] + windows.pads[2 + i]
        span = (counts[i] - 1) * windows.strides[i] + 1
        extents.append((size - span) // windows.dilations[i] + 1)
    return extents


def _grouped(x: Tensor, g: Tensor, weight: Tensor, windows: WindowShape, groups: int) -> Tensor:
    """One product for each place of the kernel, group and pair of blocks."""
    graph, block = g.graph, g.graph.layout.block
    outs, ins, *kernel = weight.whole
    places = product(kernel)
    merges = is_merged(weight, groups, block)
    _, wide, rows, columns = sizes(g)
    count = wide // block if merges else groups
    ways, deep = wide // count // block, 1 if merges else ins // block
    right = g.reshape(-1, count * ways, rows * columns * block).swap(0, 1)
    right = right.reshape(count, ways, 1, -1, block)
    blocks = x.reshape(-1, count * deep, *sizes(x)[2:], block).swap(0, 1)
    parts = []
    for view in shifted(bordered(blocks, windows), windows, (rows, columns)):
        left = view.reshape(count, 1, deep, -1, block)
        parts.append(left.swap(-1, -2) @ right)
    products = joined(parts, 0)
    if not merges:
        products = products.reshape(places, count, ways, deep, block, block)
        return products.transpose(1, 2, 5, 3, 4, 0).reshape_like(weight)
    times = block // ins
    pairs = products.reshape(places, count, times, ins, times, ins)
    own = np.eye(times).reshape(1, 1, times, 1, times, 1)
    kept = (pairs * graph.numbers(own, g.dtype)).sum([2])
    whole = kept.transpose(1, 3, 4, 2, 0).reshape(wide, ins, *kernel)
    return whole if wide == outs else whole.slice([0], [outs], [0])


def _depthwise(x: Tensor, g: Tensor, weight: Tensor, windows: WindowShape) -> Tensor:
    """A depthwise convolution of x with g as its kernel, for each sample, summed over samples.

    Samples and channels are its channels: their number is fixed, so that missing samples are zeros.
    """
    graph, layout = g.graph, g.graph.layout
    block, (_, channels, rows, columns) = layout.block, sizes(g)
    outs = weight.whole[0]
    if windows.is_point:
        return over_places(x * g, outs).reshape_like(weight)
    graph.counts_rows = True
    left, right = (tensor.reshape(-1, *sizes(tensor)[2:], block) for tensor in (x, g))
    absent = graph.ints([layout.rows * channels // block]) - left.size(0)
    pads = windows.pads
    wide = left.op("Pad", graph.vector(0, *pads[:2], 0, absent, *pads[2:], 0))
    kernels = right.op("Pad", graph.vector(0, 0, 0, 0, absent, 0, 0, 0))
    tall, broad = (size + pads[i] + pads[2 + i] for i, size in enumerate(sizes(x)[2:]))
    extents = _extents(windows, sizes(x)[2:], (rows, columns))
    total = layout.rows * channels
    gradients = block_op(
        graph,
        "Conv",
        (1, total, *extents),
        wide.reshape(1, total, tall, broad),
        kernels.reshape(total, 1, rows, columns),
        kernel_shape=[rows, columns],
        strides=list(windows.dilations),
        dilations=list(windows.strides),
        pads=[0, 0, 0, 0],
        group=total,
    )
    parts = gradients.reshape(layout.rows, channels // block, *extents, block).sum([0])
    if extents != list(windows.kernel):
        parts = parts.slice([0, 0], list(windows.kernel), [1, 2])
    plain = parts.transpose(0, 3, 1, 2).reshape(channels, 1, *windows.kernel)
    return plain if outs == channels else plain.slice([0], [outs], [0])


def over_places(g: Tensor, channels: int) -> Tensor:
    """The sum over samples and places, for each channel."""
    _, wide, rows, columns = sizes(g)
    mean = block_op(g.graph, "GlobalAveragePool", (sizes(g)[0], wide, 1, 1), g)
    total = mean.reshape(-1, wide).sum([0]) * (rows * columns)
    return total if wide == channels else total.slice([0], [channels], [0])
