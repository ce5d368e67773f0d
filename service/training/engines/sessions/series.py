"""Several steps on small batches, one right after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from service.training.engine import Array
from service.training.engines.manifest import Manifest
from service.training.engines.runtime import check_memory
from service.training.engines.sessions.binding import Binding, memory_of
from service.training.loss import LOSS, LOSS_SCALE

MOST_STEPS = 32
NUMBERS_AT_ONCE = 1 << 21
"""Maximum of results and parameters in a call: a few milliseconds, until commands are obeyed."""


def steps_at_once(manifest: Manifest, *, rows: int) -> int:
    """How many steps on this many rows a call may take."""
    numbers = rows * manifest.work.elements + manifest.parameter_count
    return min(MOST_STEPS, NUMBERS_AT_ONCE // max(1, numbers))


class StepSeries:
    """Steps on `rows` rows each. Every step of a call has its own memory for inputs, target, scale
    and loss, bound once, so that between two steps there is only the optimizer's work.

    inputs, outputs: the rest, which all steps share. feeds: inputs and target by name. update: an
    optimizer step at a rate. scale: the factor on the losses of a batch, by its target.
    """

    def __init__(
        self,
        session: object,
        inputs: Mapping[str, Array],
        outputs: Mapping[str, Array],
        feeds: Callable[[Sequence[Array], Array], Mapping[str, Array]],
        update: Callable[[float], None],
        *,
        scale: Callable[[Array], float],
        rows: int,
        most: int,
        scale_rank: int,
    ) -> None:
        self.most = most
        self._session, self._feeds = session, feeds
        self._update, self._scale = update, scale
        self._inputs, self._outputs = memory_of(inputs), memory_of(outputs)
        self.rows = rows
        self._scales = np.zeros((most, *(1,) * scale_rank), np.float32)
        self._losses = np.zeros(most, np.float32)
        self._memory: dict[str, Array] = {}
        self._runs: list[Callable[[], None]] = []

    def train(
        self, inputs: Sequence[Array], target: Array, rates: Sequence[float]
    ) -> Sequence[float]:
        rows = len(rates) * self.rows
        for name, array in self._feeds(inputs, target).items():
            if name not in self._memory:
                shape = self.most * self.rows, *array.shape[1:]
                self._memory[name] = np.empty(shape, array.dtype)
            self._memory[name][:rows] = array[:rows]
        for place in range(len(rates)):
            batch = slice(place * self.rows, (place + 1) * self.rows)
            self._scales[place] = self._scale(target[batch])
        while len(self._runs) < len(rates):
            self._runs.append(self._bound(len(self._runs)).bare_run)
        update = self._update
        try:
            with np.errstate(all="ignore"):
                for run, rate in zip(self._runs, rates, strict=False):
                    run()
                    update(rate)
        except RuntimeError as error:
            check_memory(error)
            raise
        losses: list[float] = self._losses[: len(rates)].tolist()
        return losses

    def _bound(self, place: int) -> Binding:
        binding = Binding(self._session)
        binding.read(LOSS_SCALE, self._scales[place : place + 1].reshape(self._scales.shape[1:]))
        binding.write(LOSS, self._losses[place : place + 1].reshape(()))
        for name, array in self._memory.items():
            binding.read(name, array[place * self.rows : (place + 1) * self.rows])
        binding.reuse(self._inputs, self._outputs)
        return binding
