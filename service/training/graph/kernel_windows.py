"""The positions of the windows of a convolution or pooling, axis by axis, and what they read."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
from msgspec import Struct

from service.training.graph.node import Node
from service.training.graph.passes.pads import all_pads
from service.training.graph.places import fixed
from service.training.graph.tensor import Array, Dim, Tensor


class WindowShape(Struct, frozen=True):
    """By axis. pads: as ONNX writes them, all befores, then all afters. strides, dilations: by
    default those of rows and columns without gaps.
    """

    kernel: tuple[int, ...]
    pads: tuple[int, ...]
    strides: tuple[int, ...] = (1, 1)
    dilations: tuple[int, ...] = (1, 1)

    @property
    def befores(self) -> tuple[int, ...]:
        return self.pads[: len(self.kernel)]

    @property
    def afters(self) -> tuple[int, ...]:
        return self.pads[len(self.kernel) :]

    @property
    def spans(self) -> list[int]:
        """Sizes of the kernel with its holes."""
        return [(k - 1) * d + 1 for k, d in zip(self.kernel, self.dilations, strict=True)]

    @property
    def axes(self) -> range:
        """The axes that the windows move along."""
        return range(2, 2 + len(self.kernel))

    @property
    def attributes(self) -> dict[str, list[int]]:
        """Of a node with the same windows."""
        return {
            "kernel_shape": list(self.kernel),
            "pads": list(self.pads),
            "strides": list(self.strides),
            "dilations": list(self.dilations),
        }

    @property
    def is_point(self) -> bool:
        """One position, stride 1, no pads: a matrix product."""
        return {*self.kernel, *self.strides} == {1} and not any(self.pads)

    def tile(self, sizes: Sequence[Dim]) -> bool:
        """Do they fill axes of these sizes, side by side?"""
        if any(self.pads) or set(self.dilations) != {1} or self.strides != self.kernel:
            return False
        pairs = zip(sizes, self.kernel, strict=True)
        return all(isinstance(size, int) and size % k == 0 for size, k in pairs)

    def beyond(self, sizes: Sequence[int], counts: Sequence[int]) -> list[int]:
        """How many numbers of axes, with their pads, lie behind the last of so many windows."""
        axes = zip(sizes, counts, self.befores, self.afters, self.strides, self.spans, strict=True)
        return [
            size + before + after - stride * (count - 1) - span
            for size, count, before, after, stride, span in axes
        ]

    def share(self, axis: int, size: int, count: int) -> Array:
        """Which numbers each window contains, as 0 and 1. Shape: (count, size)."""
        i = axis - 2
        starts = np.arange(count)[:, None] * self.strides[i] - self.befores[i]
        offsets = np.arange(self.kernel[i]) * self.dilations[i]
        held: Array = ((starts + offsets)[:, :, None] == np.arange(size)).any(1)
        return held


def windows_of(node: Node, kernel: tuple[int, ...], x: Tensor, y: Tensor) -> WindowShape:
    """Of a convolution or pooling of x to y.

    Raises NotDifferentiable if its pads depend on unknown sizes.
    """
    n = len(kernel)
    strides = tuple(node.attribute("strides") or [1] * n)
    dilations = tuple(node.attribute("dilations") or [1] * n)
    pads = list(node.attribute("pads") or [0] * (2 * n))
    auto = node.attribute("auto_pad", "NOTSET")
    if auto in ("SAME_UPPER", "SAME_LOWER"):
        for i in range(n):
            span = (kernel[i] - 1) * dilations[i] + 1
            size, count = fixed(x, 2 + i), fixed(y, 2 + i)
            total = max((count - 1) * strides[i] + span - size, 0)
            small, large = total // 2, total - total // 2
            pads[i], pads[n + i] = (small, large) if auto == "SAME_UPPER" else (large, small)
    elif auto == "VALID":
        pads = [0] * (2 * n)
    return WindowShape(kernel, tuple(pads), strides, dilations)


def bordered(x: Tensor, windows: WindowShape, *, first: int = 2) -> Tensor:
    """With its pads. first: of the axes that the windows move along."""
    if not any(windows.pads):
        return x
    axes = range(first, first + len(windows.kernel))
    return x.op("Pad", x.graph.ints(all_pads(windows.pads, axes, x.rank)))


def shifted(
    x: Tensor, windows: WindowShape, counts: Sequence[int], *, first: int = 2
) -> list[Tensor]:
    """What each place of the kernel reads of x, which has its pads. counts: of windows, by axis."""
    ints, strides, axes = x.graph.ints, windows.strides, range(first, first + len(windows.kernel))
    sizes = [x.ranked[axis] for axis in axes]
    steps = None if set(strides) == {1} else ints(strides)
    parts = []
    for place in itertools.product(*(range(k) for k in windows.kernel)):
        starts = [p * d for p, d in zip(place, windows.dilations, strict=True)]
        ends = [
            start + stride * (count - 1) + 1
            for start, stride, count in zip(starts, strides, counts, strict=True)
        ]
        whole = steps is None and not any(starts) and sizes == ends
        parts.append(x if whole else x.op("Slice", ints(starts), ints(ends), ints(axes), steps))
    return parts
