"""Opens the sessions of a model's step and of its evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from service.training.engine import Array
from service.training.engines.manifest import Files, Manifest
from service.training.engines.runtime import CPU, here, open_session
from service.training.engines.sessions.binding import Binding
from service.training.engines.sessions.chosen_loss import ChosenLoss
from service.training.engines.sessions.crew import Crew
from service.training.engines.sessions.shares import (
    PLANNED_BYTES,
    Bind,
    Pieces,
    Shares,
    is_small,
    rows_at_once,
)
from service.training.engines.sessions.state import State
from service.training.engines.sessions.step_memory import StepMemory


class ModelSessions:
    """shares: how many parts a batch is split into. updated: outputs of a step for new statistics.

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
        """Of a run, at most."""
        known = rows_at_once(self._manifest, of_optimized=self._is_here), self._state.rows
        return min((each for each in known if each is not None), default=None)

    def at_once(self, rows: int) -> int:
        """How many of a batch's rows all shares take in one run each."""
        return rows if self.rows is None else min(rows, self.rows * self.shares)

    def memory(self) -> StepMemory:
        """What the step reads and writes."""
        fixed = {**self._loss.class_vectors, **self._frozen}
        return StepMemory(self._state, fixed=fixed, updated=self._updated)

    def step(self, provider: str) -> Shares:
        model, files = self._loss.step_model, self._files
        optimized = files.optimized_step_model
        if model != files.step_model:
            made = files.optimized_class_step_model
            optimized = made if made is not None and made.is_file() else None
        if provider != CPU or not self._is_here:
            optimized = None
        memory = self.memory()
        if optimized is not None:
            memory.divide(files, threads=self._threads, shares=self.shares, crew=self._crew)
        pieces = None
        if self.rows is not None:
            pieces = Pieces(self.rows, memory.bind_further, memory.add_further)
        if optimized is None:
            return self._open(model, memory.bind, pieces=pieces, provider=provider)
        sessions = self._sessions(optimized, is_optimized=True)
        return Shares(sessions, memory.bind, crew=self._crew, pieces=pieces, once=memory.once)

    def evaluation(self) -> Shares:
        return self._open(self._files.eval_model, self._bind_evaluation)

    def _open(
        self, model: Path, bind: Bind, *, pieces: Pieces | None = None, provider: str = CPU
    ) -> Shares:
        sessions = self._sessions(model, provider=provider)
        return Shares(sessions, bind, crew=self._crew, pieces=pieces)

    def _sessions(self, model: Path, **options: Any) -> list[Any]:
        """One for each share, so that its data stay in its processor's cache."""
        threads = self._threads if self.shares == 1 else 1
        options["pattern"] = is_small(self._manifest)
        options["reuse"] = not (model.is_file() and model.stat().st_size > PLANNED_BYTES)
        return [open_session(model, threads=threads, **options) for _ in range(self.shares)]

    def _bind_evaluation(self, binding: Binding, _share: int) -> None:
        for name, array in {**self._state.measured, **self._frozen}.items():
            binding.read(name, array)
