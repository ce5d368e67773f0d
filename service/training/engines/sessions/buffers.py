"""The flat memory of parameters, gradients and the optimizer's state."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from copy import copy
from functools import lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from service.training.engines.manifest import TrainedTensor
from service.training.optimizer.layout import ALIGNMENT, BufferLayout

if TYPE_CHECKING:
    from service.training.engines.sessions.device import DeviceMemory

Vector = NDArray[np.float32]


class Buffers:
    """Flat buffers of equal size, [rows · width] of the layout, which start as 0.

    gradients: one for each share of a batch, to be summed. slots: the optimizer's state by name.
    device: where they are kept instead, if it has memory of its own, see `DeviceBuffers`.
    """

    device: DeviceMemory | None = None

    def __init__(
        self,
        tensors: Sequence[TrainedTensor],
        layout: BufferLayout,
        *,
        shares: int,
        slots: Sequence[str],
    ) -> None:
        self.layout = layout
        self._tensors = tensors
        size = layout.rows * layout.width
        self.parameters = aligned(size)
        self.gradients = [aligned(size) for _ in range(shares)]
        self.slots = {name: aligned(size) for name in slots}
        self._earlier: Vector | None = None
        self._has_earlier = False
        self._factor = np.ones((), np.float32)

    def views(self, buffer: Vector) -> dict[str, Vector]:
        """Each tensor's part of a buffer, in its shape."""
        parts = {}
        for tensor in self._tensors:
            start = self.layout.starts[tensor.name]
            parts[tensor.name] = buffer[start : start + tensor.size].reshape(tensor.shape)
        return parts

    def rows_with(self, names: Collection[str]) -> set[int]:
        """The rows with numbers of these tensors."""
        width, starts = self.layout.width, self.layout.starts
        return {
            row
            for tensor in self._tensors
            if tensor.name in names
            for row in range(
                starts[tensor.name] // width, -(-(starts[tensor.name] + tensor.size) // width)
            )
        }

    def rows(self, buffer: Vector, first: int, last: int) -> Vector:
        """These rows of a buffer, [last - first, width]."""
        width = self.layout.width
        return buffer[first * width : last * width].reshape(last - first, width)

    def put_gradients_by(self) -> None:
        """Add gradients to those of the step's earlier runs, before the next overwrites them."""
        if self._earlier is None:
            self._earlier = self._room()
        for gradient in self.gradients:
            self._compute(np.add, self._earlier, gradient, self._earlier)
            self._clear(gradient)
        self._has_earlier = True

    def average_gradients(self, batches: float) -> None:
        """Divide the gradients of the step's batches by their number, if any were put by."""
        if not self._has_earlier:
            return
        self.put_gradients_by()
        assert self._earlier is not None
        self._factor.fill(1 / batches)
        self._compute(np.multiply, self._earlier, self._factor, self.gradients[0])
        self._clear(self._earlier)
        self._has_earlier = False

    def total(self) -> Vector:
        """The sum of all shares' gradients, which are cleared."""
        whole: Vector = np.sum(self.gradients, axis=0)
        # A divided step writes gradients of the first share alone: others must not keep any.
        self.clear_gradients()
        return whole

    def clear_gradients(self) -> None:
        """Of the last run, or the next would add to them."""
        for gradient in self.gradients:
            self._clear(gradient)

    def of_one_share(self) -> Buffers:
        """The same with the first share's gradients alone."""
        one = copy(self)
        one.gradients, one._earlier = self.gradients[:1], None
        return one

    def fetch(self) -> None:
        """Make parameters and slots current if a device has newer ones."""

    def send(self) -> None:
        """Give a device these parameters and slots."""

    def on_host(self) -> Buffers:
        """The same, current, without a device."""
        return self

    def _room(self) -> Vector:
        """For sums of gradients."""
        return aligned(self.parameters.size)

    def _compute(self, operator: Callable[..., object], *arrays: Vector) -> None:
        """The last array, of the others."""
        operator(*arrays)

    def _clear(self, array: Vector) -> None:
        array.fill(0)

    def free(self, kept: Collection[str]) -> None:
        """Keep the parameters and these slots alone."""
        self.slots = {name: slot for name, slot in self.slots.items() if name in kept}
        self.gradients, self._earlier = [], None


def aligned(size: int) -> Vector:
    """Zeros, aligned to 64 bytes."""
    room = np.zeros(size + ALIGNMENT, np.float32)
    start = (-room.ctypes.data % (4 * ALIGNMENT)) // 4
    return room[start : start + size]


@lru_cache(maxsize=64)
def edges(count: int, shares: int) -> tuple[tuple[int, int], ...]:
    """Start and end of each share of `count` items; none is empty, so there may be fewer."""
    shares = max(1, min(shares, count))
    cuts = [count * share // shares for share in range(shares + 1)]
    return tuple(pairwise(cuts))
