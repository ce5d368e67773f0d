"""Training state in the memory of an execution provider's device, and the optimizer there."""

from __future__ import annotations

from collections.abc import Callable, Collection
from copy import copy

import numpy as np

from service.training.engines.provider_setting import Provider
from service.training.engines.sessions.buffers import Buffers, Vector, aligned
from service.training.engines.sessions.crew import Call
from service.training.engines.sessions.device import DEVICES, DeviceMemory
from service.training.engines.sessions.optimizer import Block, Optimizer
from service.training.engines.sessions.providers import disagreement
from service.training.optimizer.rules import Do, slots


class DeviceBuffers(Buffers):
    """Parameters, gradients of a single share and the optimizer's state on a device.

    The arrays here have their values after `fetch`, gradients and sums of them never.
    """

    device: DeviceMemory

    def __init__(self, of: Buffers, device: DeviceMemory) -> None:
        vars(self).update(vars(of))
        self.device = device
        self._host = copy(of)
        self._host.gradients = []
        self.gradients = [aligned(self.parameters.size)]
        self._earlier, self._has_earlier = None, False
        self._compiled: dict[Callable[..., object], Call] = {}
        self.is_stale = False
        for vector in (*self._state, *self.gradients):
            device.hold(vector)

    @property
    def _state(self) -> tuple[Vector, ...]:
        return (self.parameters, *self.slots.values())

    def fetch(self) -> None:
        if self.is_stale:
            for vector in self._state:
                self.device.fetch(vector)
        self.is_stale = False

    def send(self) -> None:
        for vector in self._state:
            self.device.send(vector)

    def total(self) -> Vector:
        self.device.fetch(self.gradients[0])
        return super().total()

    def on_host(self) -> Buffers:
        self.fetch()
        return self._host

    def _room(self) -> Vector:
        room = super()._room()
        self.device.hold(room)
        return room

    def _compute(self, operator: Callable[..., object], *arrays: Vector) -> None:
        if operator not in self._compiled:  # of the same arrays each time
            compiled = self.device.compiled(lambda do: do(operator, *arrays), arrays[-1:])
            self._compiled[operator] = compiled
        self._compiled[operator]()

    def _clear(self, array: Vector) -> None:
        self.device.clear(array)


class DeviceOptimizer(Optimizer):
    """The same calls on whole buffers, as one graph that runs on the device."""

    _buffers: DeviceBuffers

    def step(self, rate: float, *, number: int) -> None:
        super().step(rate, number=number)
        self._buffers.is_stale = True
        if self._clears:
            self._buffers.clear_gradients()

    def _make_blocks(self, buffers: Buffers, _split: Collection[str]) -> list[Block]:
        def whole(buffer: Vector) -> Vector:
            return buffers.rows(buffer, 0, buffers.layout.rows)

        (gradient,) = buffers.gradients
        state = [whole(buffers.slots[name]) for name in slots(self._options)]
        of_rows = (self._rates, self._decays, self._square_sums)
        columns = [row[:, np.newaxis] for row in of_rows]
        return [Block(whole(buffers.parameters), [whole(gradient)], state, *columns)]

    def _compile(self, buffers: Buffers, _threads: int) -> tuple[list[Call], list[Call]]:
        from service.training.engines.sessions.call_graph import sum_row_squares  # loads onnx

        assert isinstance(buffers, DeviceBuffers)
        self._buffers = buffers
        (block,), compiled, scratch = self._blocks, buffers.device.compiled, aligned(0)

        def norm(do: Do) -> None:
            do(sum_row_squares, block.gradients[0], block.square_sum)

        results = (block.parameter, *block.slots)
        update = compiled(lambda do: self._move(do, block, scratch), results)
        return [update], [compiled(norm, [block.square_sum])]

    def _remember_start(self) -> None:
        super()._remember_start()
        self._buffers.send()


def buffers_on(provider: Provider, host: Buffers, *, threads: int) -> Buffers:
    """Buffers of a single share: on the provider's device if it has memory of its own."""
    if provider[0] in DEVICES:
        return DeviceBuffers(host, DeviceMemory(provider, threads=threads))
    return host.of_one_share()


def optimizer_on(
    buffers: Buffers, make: Callable[[type[Optimizer]], Optimizer], *, number: int
) -> tuple[Optimizer, str | None]:
    """The optimizer of these buffers, and where its step differs from the CPU's, None if nowhere.

    make: opens a kind of optimizer. number: of the next step. Parameters serve as gradients.
    """
    here = make(Optimizer)
    if not isinstance(buffers, DeviceBuffers):
        return here, None
    there = make(DeviceOptimizer)
    state = {"the parameters": buffers.parameters, **buffers.slots}
    before = {name: array.copy() for name, array in state.items()}
    gradient, steps = buffers.gradients[0], []
    for optimizer in (there, here):
        gradient[...] = buffers.parameters
        buffers.device.send(gradient)
        optimizer.step(1.0, number=number)
        buffers.fetch()
        steps.append({f"an optimizer's step on {name}": a.copy() for name, a in state.items()})
        for name, array in state.items():
            array[...] = before[name]
    gradient.fill(0)
    for array in (gradient, *state.values()):
        buffers.device.send(array)
    results, expected = steps
    return there, disagreement(expected, results)
