"""The memory that the runs of a step read and write, by the names of its inputs and outputs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from service.training.engine import Array
from service.training.engines.manifest import Files
from service.training.engines.sessions.binding import Binding
from service.training.engines.sessions.buffers import Vector
from service.training.engines.sessions.crew import Crew
from service.training.engines.sessions.once import OncePerBatch
from service.training.engines.sessions.state import State
from service.training.loss import SUM

GRADIENT = "hone.gradient."


def gradients_of(session: Any) -> list[str]:
    """The parameters whose gradients a step's runs write; others are made once for a batch."""
    names = [value.name for value in session.get_outputs()]
    return [name.removeprefix(GRADIENT) for name in names if name.startswith(GRADIENT)]


class StepMemory:
    """fixed: inputs besides parameters and statistics. updated: outputs of new statistics. once:
    what is run once for a batch, if the step is divided.
    """

    def __init__(
        self, state: State, *, fixed: Mapping[str, Array], updated: Mapping[str, Array]
    ) -> None:
        self._buffers = state.buffers
        self.inputs: dict[str, Array] = {**state.parameters, **state.statistics, **fixed}
        self._updated = updated
        self.once: OncePerBatch | None = None

    def divide(self, files: Files, *, threads: int, shares: int, crew: Crew) -> None:
        """Open what is run once for a batch, if the model has it."""
        self.once = None
        if files.weights_model is None or not files.weights_model.is_file():
            return
        flat = self._buffers.gradients[0]
        self.once = OncePerBatch(
            files,
            self.inputs,
            self.outputs(flat),
            flat,
            threads=threads,
            shares=shares,
            crew=crew,
        )

    def outputs(self, into: Vector) -> dict[str, Array]:
        """into: flat memory of the gradients."""
        views = self._buffers.views(into)
        return {**{GRADIENT + name: view for name, view in views.items()}, **self._updated}

    def bind(self, binding: Binding, share: int) -> None:
        """To a share's runs. What these add to is 0 before the first."""
        read, written = dict(self.inputs), self.outputs(self._buffers.gradients[share])
        if self.once is not None:
            read |= self.once.made
            written |= self.once.parts[share].views
        for name, shape in binding.inputs.items():
            if name.startswith(SUM):
                own = name.removeprefix(SUM)
                read[name] = written[own] = written[own].reshape(shape)
            if name in read:
                binding.read(name, read[name])
        for name in binding.outputs:
            if name in written:
                binding.write(name, written[name])
            elif self.once is not None and name in self.once.factors.axes:
                binding.allocate(name)
