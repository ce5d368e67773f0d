"""Convolutions of tensors with spatial axes first, then batch and channels: products of rows."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from functools import reduce

from msgspec import Struct

from service.training.graph.kernel_windows import WindowShape
from service.training.graph.node import Gradients, Node
from service.training.graph.places import joined
from service.training.graph.rules.matrix import multiply
from service.training.graph.tensor import Dim, Tensor, product

FEW_CHANNELS = 8
"""Up to this many, one product with all positions of a kernel side by side is faster."""


class Windowed(Struct, frozen=True):
    """A convolution and the pool after it. cells: of the pool's window. counts: of results."""

    windows: WindowShape
    cells: Sequence[int]
    counts: Sequence[int]

    @property
    def steps(self) -> list[int]:
        """Distance from one result's first number to the next one's, by axis."""
        return [s * c for s, c in zip(self.windows.strides, self.cells, strict=True)]

    def starts(self, cell: Sequence[int], place: Sequence[int]) -> list[int]:
        """Position of the first number that this place of a kernel reads."""
        w = self.windows
        axes = zip(cell, w.strides, place, w.dilations, strict=True)
        return [c * stride + p * dilation for c, stride, p, dilation in axes]


def convolve(
    of: Windowed, weight: Tensor, *, moved: Tensor | None, plain: Tensor | None
) -> list[Tensor]:
    """The results at each cell of the pool's window, (*counts, batch, channels), without a bias.

    weight: as Conv has it. moved: (*places, batch, channels), or plain: (batch, channels, *places).
    """
    cells = itertools.product(*(range(c) for c in of.cells))
    if moved is None:
        assert plain is not None
        channels = plain.ranked[1]
        if isinstance(channels, int) and channels <= FEW_CHANNELS:
            seen = KernelView(of, batch_last(plain), first=1)
            return [_side_by_side(seen, cell, weight) for cell in cells]
        moved = places_first(plain)
    seen = KernelView(of, moved, first=0)
    return [_row_by_row(seen, cell, weight) for cell in cells]


def batch_last(x: Tensor) -> Tensor:
    """(batch, channels, *places) → (channels, *places, batch)."""
    batch, *rest = x.ranked
    return (
        x.reshape(-1, product(x.sizes_of(range(1, x.rank))))
        .swap(0, 1)
        .reshape(*rest, -1)
        .known(*rest, batch)
    )


def places_first(x: Tensor) -> Tensor:
    """(batch, channels, *places) → (*places, batch, channels).

    Runtimes move a single axis faster than several, so the spatial axes are merged meanwhile.
    """
    batch, channels, *places = x.ranked
    flat = x.reshape(-1, channels, product(x.sizes_of(range(2, x.rank))))
    return flat.transpose(2, 0, 1).reshape(*places, -1, channels).known(*places, batch, channels)


def places_last(x: Tensor) -> Tensor:
    """(*places, batch, channels) → (batch, channels, *places)."""
    *places, batch, channels = x.ranked
    flat = x.reshape(product(x.sizes_of(range(x.rank - 2))), -1, channels)
    return flat.transpose(1, 2, 0).reshape(-1, channels, *places).known(batch, channels, *places)


def _side_by_side(seen: KernelView, cell: Sequence[int], weight: Tensor) -> Tensor:
    """One product (results, places·channels)·(places·channels, out)."""
    outs, ins, *kernel = weight.sizes or ()
    places = itertools.product(*(range(k) for k in kernel))
    columns = [seen.at(cell, place).reshape(ins, -1) for place in places]
    whole = joined(columns, 0)
    flat = weight.transpose(0, *range(2, weight.rank), 1).reshape(outs, -1)
    return seen.shaped(multiply(whole, flat, ta=True, tb=True), outs)


def _row_by_row(seen: KernelView, cell: Sequence[int], weight: Tensor) -> Tensor:
    """For each row of the kernel (results, row·channels)·(row·channels, out), added up."""
    graph = weight.graph
    outs, ins, *kernel = weight.sizes or ()
    *others, last = kernel
    rows = list(itertools.product(*(range(k) for k in others)))
    flat = weight.transpose(*range(2, weight.rank), 1, 0).reshape(len(rows) * last * ins, outs)
    sizes = graph.ints([last * ins] * len(rows))
    weights = (
        [flat] if len(rows) == 1 else graph.ops("Split", flat, sizes, outputs=len(rows), axis=0)
    )
    total: Tensor | None = None
    for row, own in zip(rows, weights, strict=True):
        parts = [seen.at(cell, (*row, place)) for place in range(last)]
        wide = joined(parts, parts[0].rank - 1)
        total = seen.flat(wide, last * ins).op("Gemm", own, total)
    assert total is not None
    return seen.shaped(total, outs)


class KernelView:
    """The inputs of kernels from a tensor whose spatial axes begin at `first`.

    Strides are removed first: in a tensor of every second position and one of the others, slices
    are whole rows.
    """

    def __init__(self, of: Windowed, x: Tensor, *, first: int) -> None:
        self._of = of
        self._axes = range(first, first + len(of.counts))
        self._batch = x.ranked[-1 if first else -2]
        self._planes: dict[tuple[int, ...], Tensor] = {(): self._bordered(x)}
        for axis, step in zip(self._axes, of.steps, strict=True):
            self._planes = {
                (*key, at): part
                for key, plane in self._planes.items()
                for at, part in enumerate(_every(plane, axis, step))
            }

    def at(self, cell: Sequence[int], place: Sequence[int]) -> Tensor:
        """In the shape of the results."""
        starts, steps = self._of.starts(cell, place), self._of.steps
        plane = self._planes[tuple(a % step for a, step in zip(starts, steps, strict=True))]
        begins = [a // step for a, step in zip(starts, steps, strict=True)]
        ends = [begin + count for begin, count in zip(begins, self._of.counts, strict=True)]
        whole = not any(begins) and plane.sizes_of(self._axes) == ends
        return plane if whole else plane.slice(begins, ends, self._axes)

    def flat(self, x: Tensor, columns: int) -> Tensor:
        """As a matrix with a row for each result."""
        return x.reshape(-1, columns).known(self._rows(), columns)

    def shaped(self, x: Tensor, channels: int) -> Tensor:
        """A matrix with a row for each result, as a tensor."""
        whole = x.known(self._rows(), channels).reshape(*self._of.counts, -1, channels)
        return whole.known(*self._of.counts, self._batch, channels)

    def _rows(self) -> Dim:
        return "*".join(map(str, (*self._of.counts, self._batch)))

    def _bordered(self, x: Tensor) -> Tensor:
        """With its pads, extended so that the strides divide it."""
        w, pads = self._of.windows, [0] * (2 * x.rank)
        sizes = x.sizes_of(self._axes)
        for i, axis in enumerate(self._axes):
            pads[axis] = w.befores[i]
            more = -(w.befores[i] + sizes[i] + w.afters[i]) % self._of.steps[i]
            pads[x.rank + axis] = w.afters[i] + more
        return x.op("Pad", x.graph.ints(pads)) if any(pads) else x


def _every(x: Tensor, axis: int, step: int) -> list[Tensor]:
    """The positions 0, step, 2·step … of an axis, then 1, step + 1 …"""
    if step == 1:
        return [x]
    before, size, after = x.ranked[:axis], x.sizes_of([axis])[0], x.ranked[axis + 1 :]
    rest = [d if isinstance(d, int) else -1 for d in after]
    pairs = x.reshape(*before, size // step, step, *rest).known(*before, size // step, step, *after)
    parts = x.graph.ops("Split", pairs, x.graph.ints([1] * step), outputs=step, axis=axis + 1)
    return [part.squeeze(axis + 1).known(*before, size // step, *after) for part in parts]


def first_largest(parts: Sequence[Tensor]) -> Tensor:
    """Elementwise maximum; the first of equal numbers gets the gradient, as in a MaxPool."""
    return reduce(_larger, parts)


def _larger(a: Tensor, b: Tensor) -> Tensor:
    larger = a.op("Max", b).known_like(a)
    a.graph.rules[larger.name] = _to_larger
    return larger


def _to_larger(node: Node, g: Tensor) -> Gradients:
    first = g * (node.given(0) >= node.given(1)).cast_like(g)
    return [first, g - first]
