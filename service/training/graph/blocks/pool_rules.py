"""Gradients of poolings and of reordering in the runtime's own layout."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from service.training.graph.blocks.layout import (
    DOMAIN,
    block_op,
    block_windows,
    from_blocks,
    repeat,
    side_by_side,
    sizes,
    to_blocks,
)
from service.training.graph.kernel_windows import shifted
from service.training.graph.node import GradientRule, Gradients, Node
from service.training.graph.rules.activation import above_zero
from service.training.graph.tensor import Tensor, product


def reorder_input(node: Node, g: Tensor) -> Gradients:
    """Back to ONNX's layout."""
    channels = node.x.sizes_of([1])[0]
    return [from_blocks(g, channels).known_like(node.x)]


def reorder_output(node: Node, g: Tensor) -> Gradients:
    """Into blocks."""
    x, block = node.x, g.graph.layout.block
    if not node.attribute("channels_last", 0):
        return [to_blocks(g, block).known_like(x)]
    return [block_op(g.graph, "ReorderInput", x.ranked, g, channels_last=1)]


def global_average_pool(node: Node, g: Tensor) -> Gradients:
    """The same share for each place."""
    batch, channels, rows, columns = sizes(node.x)
    block = g.graph.layout.block
    share = g.reshape(-1, 1, block) * (1 / (rows * columns))
    whole = share.op("Expand", g.graph.ints([1, rows * columns, 1]))
    return [whole.reshape(batch, channels, rows, columns)]


def max_pool(node: Node, g: Tensor) -> Gradients:
    """To the first maximum of each window.

    Place by place of the window, what is left of g goes to the numbers that are as large as the
    result: y - x is 0 there, and above 0 elsewhere.
    """
    x, y, block = node.x, node.y, g.graph.layout.block
    windows = block_windows(node)
    (_, _, rows, columns), counts = sizes(x), sizes(y)[2:]
    lengths = [-(-size // s) for size, s in zip((rows, columns), windows.strides, strict=True)]
    flat = x.reshape(-1, rows, columns, block)
    if any(windows.pads):
        low = x.graph.numbers(-3e38, x.dtype)
        flat = flat.op("Pad", x.graph.ints([0, *windows.pads[:2], 0, 0, *windows.pads[2:], 0]), low)
    seen = shifted(flat, windows, counts, first=1)
    left, top = (tensor.reshape(-1, *counts, block) for tensor in (g, y))
    parts: dict[tuple[int, int], Tensor] = {}
    places = list(itertools.product(*(range(k) for k in windows.kernel)))
    for place, own in zip(places, seen, strict=True):
        is_last = place == places[-1]
        rest = None if is_last else left * above_zero(top - own)
        taken = left if rest is None else left - rest
        left = left if rest is None else rest
        offsets = [p - b for p, b in zip(place, windows.pads[:2], strict=True)]
        pairs = list(zip(offsets, windows.strides, strict=True))
        key = (offsets[0] % windows.strides[0], offsets[1] % windows.strides[1])
        moved = _placed(taken, [offset // stride for offset, stride in pairs], lengths)
        parts[key] = parts[key] + moved if key in parts else moved
    grid = [[parts[i, j] for j in range(windows.strides[1])] for i in range(windows.strides[0])]
    return [side_by_side(grid, (rows, columns)).reshape(*sizes(x))]


def _placed(x: Tensor, offsets: Sequence[int], lengths: Sequence[int]) -> Tensor:
    """Moved along rows and columns, cut or filled with zeros to these lengths."""
    counts = x.sizes_of([1, 2])
    afters = [n - o - c for n, o, c in zip(lengths, offsets, counts, strict=True)]
    if not any((*offsets, *afters)):
        return x
    return x.op("Pad", x.graph.ints([0, *offsets, 0, 0, *afters, 0]))


def average_pool(node: Node, g: Tensor) -> Gradients:
    """Of windows that tile x."""
    kernel = node.attribute("kernel_shape")
    return [repeat(g * (1 / product(kernel)), kernel)]


RULES: dict[str, GradientRule] = {
    f"{DOMAIN}.{name}": rule
    for name, rule in {
        "AveragePool": average_pool,
        "GlobalAveragePool": global_average_pool,
        "MaxPool": max_pool,
        "ReorderInput": reorder_input,
        "ReorderOutput": reorder_output,
    }.items()
}
