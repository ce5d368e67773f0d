"""The positions of the windows of a convolution or pooling, axis by axis."""

from __future__ import annotations

import numpy as np
from msgspec import Struct

from service.training.graph.node import Node
from service.training.graph.places import fixed
from service.training.graph.tensor import Array, Tensor


class WindowShape(Struct, frozen=True):
    """befores, afters: pads, by axis."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    befores: tuple[int, ...]
    afters: tuple[int, ...]

    @property
    def pads(self) -> list[int]:
        """As ONNX writes them: all befores, then all afters."""
        return [*self.befores, *self.afters]

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
        """Attributes of a Conv or ConvTranspose with the same windows."""
        return {
            "strides": list(self.strides),
            "dilations": list(self.dilations),
            "pads": self.pads,
        }

    @property
    def is_point(self) -> bool:
        """One position, stride 1, no pads: a matrix product."""
        ones = {*self.kernel, *self.strides} == {1}
        return ones and not any(self.pads)

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
    return WindowShape(kernel, strides, dilations, tuple(pads[:n]), tuple(pads[n:]))
