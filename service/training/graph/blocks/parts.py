"""Parts of tensors in blocks: what a place of a kernel reads, and parts put together again."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from service.training.graph.blocks.layout import BlockWindows, sizes
from service.training.graph.passes.pads import all_pads
from service.training.graph.tensor import Tensor


def side_by_side(parts: Sequence[Sequence[Tensor]], whole: Sequence[int]) -> Tensor:
    """Every second, third … number of rows and columns, together; the end is cut off.

    parts: (blocks, rows, columns, block), by their first row and column.
    """
    graph = parts[0][0].graph
    block, (rows, columns) = graph.layout.block, parts[0][0].sizes_of([1, 2])
    lines = []
    for line in parts:
        blocks = [part.reshape(-1, rows, 1, columns, 1, block) for part in line]
        lines.append(graph.op("Concat", *blocks, axis=4) if len(blocks) > 1 else blocks[0])
    joined = graph.op("Concat", *lines, axis=2) if len(lines) > 1 else lines[0]
    tall, wide = rows * len(parts), columns * len(parts[0])
    result = joined.reshape(-1, tall, wide, block)
    if (tall, wide) == tuple(whole):
        return result
    return result.slice([0, 0], list(whole), [1, 2])


def bordered(x: Tensor, windows: BlockWindows, *, first: int) -> Tensor:
    """With its pads; rows and columns begin at an axis."""
    if not any(windows.pads):
        return x
    return x.op("Pad", x.graph.ints(all_pads(windows.pads, [first, first + 1], x.rank)))


def shifted(x: Tensor, windows: BlockWindows, counts: Sequence[int], *, first: int) -> list[Tensor]:
    """What each place of the kernel reads of x, which has its pads."""
    ints, strides = x.graph.ints, windows.strides
    steps = None if set(strides) == {1} else ints(strides)
    parts = []
    for place in itertools.product(*(range(k) for k in windows.kernel)):
        starts = [p * d for p, d in zip(place, windows.dilations, strict=True)]
        ends = [
            start + stride * (count - 1) + 1
            for start, stride, count in zip(starts, strides, counts, strict=True)
        ]
        whole = steps is None and not any(starts) and x.sizes_of([first, first + 1]) == ends
        axes = ints([first, first + 1])
        parts.append(x if whole else x.op("Slice", ints(starts), ints(ends), axes, steps))
    return parts


def repeat(x: Tensor, times: Sequence[int]) -> Tensor:
    """Each number as a rectangle of equal ones."""
    batch, channels, rows, columns = sizes(x)
    flat = x.reshape(-1, rows, columns, x.graph.layout.block)
    tall, wide = rows * times[0], columns * times[1]
    whole = side_by_side([[flat] * times[1]] * times[0], (tall, wide))
    return whole.reshape(batch, channels, tall, wide)
