"""Memory of an execution provider's own device, and bindings to it."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
from msgspec import Struct

from service.training.engine import Array
from service.training.engines.provider_setting import Provider
from service.training.engines.runtime import onnxruntime, open_session
from service.training.engines.sessions.binding import Binding
from service.training.engines.sessions.crew import Call
from service.training.optimizer.rules import ZERO, Do

DEVICES = {"CUDAExecutionProvider": "cuda"}
"""The runtime's names of devices that have memory of their own which can be addressed in part."""


class HeldArray(Struct, frozen=True):
    """An array, and its copy on the device, an OrtValue."""

    array: Array
    copy: Any


class DeviceMemory:
    """Copies of arrays in a device's memory. A part of an array is found at the same place in the
    array's copy.
    """

    def __init__(self, provider: Provider, *, threads: int) -> None:
        self._provider, self._threads = provider, threads
        name, options = provider
        self.place = DEVICES[name], int(options.get("device_id", "0"))
        self._held: list[HeldArray] = []
        self._starts: list[int] = []
        self._clearing: dict[int, Call] = {}

    def hold(self, array: Array) -> None:
        """Copy a contiguous array to the device, if it is not there already."""
        if self.address(array) is not None:
            return
        start = array.ctypes.data
        copy = onnxruntime.OrtValue.ortvalue_from_shape_and_type(
            array.shape, array.dtype.type, *self.place
        )
        copy.update_inplace(array)
        at = bisect_right(self._starts, start)
        self._starts.insert(at, start)
        self._held.insert(at, HeldArray(array, copy))

    def send(self, array: Array) -> None:
        """Make the copy of a held array equal to it."""
        self._holding(array).copy.update_inplace(array)

    def fetch(self, array: Array) -> None:
        """Make a held array equal to its copy."""
        array[...] = self._holding(array).copy.numpy()

    def clear(self, array: Array) -> None:
        """Make the copy of a held array 0."""
        start = array.ctypes.data
        if start not in self._clearing:
            self._clearing[start] = self.compiled(lambda do: do(np.copyto, array, ZERO), [array])
        self._clearing[start]()

    def address(self, array: Array) -> int | None:
        """Of an array, or of a part of one, on the device; None if it is not there."""
        start = array.ctypes.data
        at = bisect_right(self._starts, start) - 1
        if at < 0 or start >= self._starts[at] + self._held[at].array.nbytes:
            return None
        return int(self._held[at].copy.data_ptr()) + start - self._starts[at]

    def compiled(self, calls: Callable[[Do], None], results: Sequence[Array]) -> Call:
        """Calls of numpy's operators as one run on the device.

        calls: makes them by `do`. results: arrays whose last values are written.
        """
        from service.training.engines.sessions.call_graph import CallGraph  # loads onnx

        graph = CallGraph(calls, results)
        session = open_session(graph.model(), threads=self._threads, provider=self._provider)
        binding = ProviderBinding(session, device=self)
        for name, array in graph.read.items():
            binding.read(name, array)
        for name, array in graph.written.items():
            binding.write(name, array)
        return binding.run

    def _holding(self, array: Array) -> HeldArray:
        return self._held[self._starts.index(array.ctypes.data)]


class ProviderBinding(Binding):
    """A session's binding to a device's memory, where arrays are held there.

    Inputs are bound anew before each run: the runtime copies them to where its operators want them
    when they are bound, not when it runs (https://github.com/microsoft/onnxruntime/issues/5857).
    """

    def __init__(self, session: Any, *, device: DeviceMemory | None) -> None:
        super().__init__(session)
        self._device = device
        self._inputs: dict[str, Callable[[], None]] = {}

    def read(self, name: str, array: Array) -> None:
        address = None if self._device is None else self._device.address(array)
        if self._device is None or address is None:
            self._inputs[name] = partial(self._binding.bind_cpu_input, name, array)
            return
        where = *self._device.place, array.dtype.type, array.shape, address
        self._inputs[name] = partial(self._binding.bind_input, name, *where)

    def write(self, name: str, array: Array) -> None:
        address = None if self._device is None else self._device.address(array)
        if self._device is None or address is None:
            super().write(name, array)
            return
        where = *self._device.place, array.dtype.type, array.shape, address
        self._binding.bind_output(name, *where)

    def run(self) -> None:
        for bind in self._inputs.values():
            bind()
        self._binding.synchronize_inputs()
        super().run()
