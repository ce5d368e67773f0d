"""Steps of the optimizer over flat buffers, in place, a share of the rows on each thread."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from service.training.engines.runtime import open_session
from service.training.engines.sessions.binding import Binding
from service.training.engines.sessions.buffers import Buffers, edges
from service.training.engines.sessions.crew import Crew
from service.training.optimizer import graph
from service.training.optimizer.recipe import Recipe
from service.training.optimizer.rules import EPSILON, RULES

Parts = Sequence[tuple[int, int]]
NORM_EPSILON = 1e-6
"""What torch.nn.utils.clip_grad_norm_ adds to the norm that it divides by."""


class Optimizer:
    """Moves the parameters of the buffers along the sum of their gradients."""

    def __init__(self, recipe: Recipe, buffers: Buffers, *, threads: int, crew: Crew) -> None:
        layout = buffers.layout
        self._recipe = recipe
        self._rule = RULES[recipe.optimizer]
        self._crew = crew
        self._factors = np.array(layout.rate_factors).reshape(-1, 1)
        self._decays = np.array(layout.decays).reshape(-1, 1)
        self._rows = {
            name: np.zeros((layout.rows, 1), np.float32) for name in graph.row_names(recipe)
        }
        self._scalars = {name: np.zeros(1, np.float32) for name in graph.scalar_names(recipe)}
        self._square_sums = np.zeros((layout.rows, 1), np.float32)
        parts = edges(layout.rows, threads)
        self._updates = [each.run for each in self._bind_updates(buffers, parts)]
        clips = recipe.max_grad_norm is not None
        self._norms = [each.run for each in self._bind_norms(buffers, parts)] if clips else []

    def step(self, rate: float, *, number: int) -> None:
        """rate: the learning rate. number: of the step, from 1."""
        scalars = self._rule.scalars
        factor, epsilon = (1.0, 0.0) if scalars is None else scalars(self._recipe, number)
        self._rows[graph.RATE][:] = self._factors * (rate * factor)
        if graph.DECAY in self._rows:
            decoupled = 1 - self._factors * self._decays * rate
            self._rows[graph.DECAY][:] = decoupled if self._rule.decoupled else self._decays
        values = {
            EPSILON: epsilon,
            # The first average is the parameter itself, as in torch.optim.swa_utils.
            graph.EMA_DECAY: 0.0 if number == 1 else self._recipe.ema_decay,
            graph.FACTOR: self._clipping() if self._norms else None,
        }
        for name, scalar in self._scalars.items():
            scalar[0] = values[name]
        self._crew.run(self._updates)

    def _clipping(self) -> float:
        """The factor that brings the norm of all gradients down to the most that is allowed."""
        assert self._recipe.max_grad_norm is not None
        self._crew.run(self._norms)
        norm = float(np.sqrt(self._square_sums.sum(dtype=np.float64)))
        return min(1.0, self._recipe.max_grad_norm / (norm + NORM_EPSILON))

    def _bind_updates(self, buffers: Buffers, parts: Parts) -> list[Binding]:
        model = graph.update_model(
            self._recipe, gradients=len(buffers.gradients), rows=buffers.layout.rows
        )
        session = open_session(model.SerializeToString(), threads=1)
        bindings = [Binding(session) for _ in parts]
        state = {graph.PARAMETER: buffers.parameters, **buffers.slots}
        for binding, (first, last) in zip(bindings, parts, strict=True):
            for name, buffer in state.items():
                part = buffers.rows(buffer, first, last)
                binding.read(name, part)
                binding.write(name + graph.NEW, part)
            for place, buffer in enumerate(buffers.gradients):
                binding.read(graph.gradient_name(place), buffers.rows(buffer, first, last))
            for name, values in self._rows.items():
                binding.read(name, values[first:last])
            for name, scalar in self._scalars.items():
                binding.read(name, scalar)
        return bindings

    def _bind_norms(self, buffers: Buffers, parts: Parts) -> list[Binding]:
        model = graph.norm_model(gradients=len(buffers.gradients))
        session = open_session(model.SerializeToString(), threads=1)
        bindings = [Binding(session) for _ in parts]
        for binding, (first, last) in zip(bindings, parts, strict=True):
            for place, buffer in enumerate(buffers.gradients):
                binding.read(graph.gradient_name(place), buffers.rows(buffer, first, last))
            binding.write(graph.NORM, self._square_sums[first:last])
        return bindings
