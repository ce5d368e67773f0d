"""Opens the sessions of a model's step and of its evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

from service.training.engine import Array
from service.training.engines.manifest import Files, Manifest
from service.training.engines.provider_setting import Provider
from service.training.engines.runtime import here, open_session
from service.training.engines.sessions.binding import Binding
from service.training.engines.sessions.chosen_loss import ChosenLoss
from service.training.engines.sessions.crew import Crew
from service.training.engines.sessions.shares import PLANNED_BYTES, Shares, is_small, rows_at_once
from service.training.engines.sessions.state import State
from service.training.engines.sessions.step_memory import StepMemory


class ModelSessions:
    """shares: how many parts a batch is split into on the CPU. updated: outputs of a step for new
    statistics.

    Its functions raise one of LOAD_ERRORS, MemoryError.
    """

    def __init__(
        self,
        files: Files,
        manifest: Manifest,
        state: State,
        loss: ChosenLoss,
        *,
        updated: Mapping[str, Array],
        threads: int,
        shares: int,
        crew: Crew,
    ) -> None:
        self._files, self._manifest, self._state, self._loss = files, manifest, state, loss
        self._updated, self._threads, self._crew = updated, threads, crew
        self.shares = shares
        self._is_here = manifest.optimized_for == here()
        self._frozen: dict[str, Array] = {}
        if manifest.frozen:
            from service.training.engines.stored_weights import map_weights

            self._frozen = map_weights(files.inference_model, manifest.frozen)

    @property
    def rows(self) -> int | None:
        """Of a run on the CPU, at most."""
        known = rows_at_once(self._manifest, of_optimized=self._is_here), self._state.rows
        return min((limit for limit in known if limit is not None), default=None)

    def largest_run(self, rows: int, provider: Provider | None) -> int:
        """The number of rows in the largest run on a batch."""
        shares = self.shares if provider is None else 1
        return min(ceil(rows / shares), self._most(provider) or rows)

    def memory(self) -> StepMemory:
        """What the step reads and writes."""
        fixed = {**self._loss.class_vectors, **self._frozen}
        return StepMemory(self._state, fixed=fixed, updated=self._updated)

    def step(self, provider: Provider | None) -> Shares:
        """provider: that of all sessions; None for the CPU's."""
        model, files = self._loss.step_model, self._files
        optimized = files.optimized_step_model
        if model != files.step_model:
            by_class = files.optimized_class_step_model
            optimized = by_class if by_class is not None and by_class.is_file() else None
        if provider is not None or not self._is_here:
            optimized = None
        memory = self.memory()
        if optimized is not None:
            memory.divide(files, threads=self._threads, shares=self.shares, crew=self._crew)
        most = self._most(provider)
        if provider is not None:
            return self._on(provider, model, memory, most)
        sessions = self._sessions(optimized or model, is_optimized=optimized is not None)
        return Shares(sessions, memory.bind, crew=self._crew, most=most, once=memory.once)

    def evaluation(self) -> Shares:
        sessions = self._sessions(self._files.eval_model)
        return Shares(sessions, self._bind_evaluation, crew=self._crew, most=self.rows)

    def _most(self, provider: Provider | None) -> int | None:
        """Of a run's rows; other providers have no cache of the processor to fit into."""
        return self.rows if provider is None else self._state.rows

    def _on(self, provider: Provider, model: Path, memory: StepMemory, most: int | None) -> Shares:
        from service.training.engines.sessions.device import ProviderBinding  # late: rarely needed

        device = self._state.buffers.device
        if device is not None:
            for array in self._frozen.values():
                device.hold(array)
        sessions = self._sessions(model, provider=provider)
        binding = partial(ProviderBinding, device=device)
        return Shares(sessions, memory.bind, crew=self._crew, most=most, binding=binding)

    def _sessions(
        self, model: Path, *, provider: Provider | None = None, **options: Any
    ) -> list[Any]:
        """On the CPU one for each share, so that its data stay in its processor's cache."""
        count = self.shares if provider is None else 1
        threads = self._threads if count == 1 else 1
        options["pattern"] = is_small(self._manifest)
        options["reuse"] = not (model.is_file() and model.stat().st_size > PLANNED_BYTES)
        return [
            open_session(model, threads=threads, provider=provider, **options) for _ in range(count)
        ]

    def _bind_evaluation(self, binding: Binding, _share: int) -> None:
        for name, array in {**self._state.measured, **self._frozen}.items():
            binding.read(name, array)
