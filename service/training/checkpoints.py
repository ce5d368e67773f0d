"""Checkpoints of a running job: complete on disk before the parent is told of them."""

from __future__ import annotations

import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

from msgspec.structs import replace

from service.training.engine import Engine
from service.training.protocol.messages.training import LoopState, Saved
from storage.disk.durable import sync_file, sync_folder

Role = Literal["periodic", "best", "final"]


class CheckpointWriter:
    """Writes the engine's state below work_dir, and notifies the parent, which moves the file."""

    def __init__(self, engine: Engine, *, work_dir: Path, send: Callable[[Saved], None]) -> None:
        self._engine = engine
        self._work_dir = work_dir
        self._send = send

    def save(self, state: LoopState, role: Role) -> None:
        path = self._written(state, role)
        self._send(Saved(str(path), role, state))

    def save_best(self, state: LoopState) -> Path:
        """Like `save`, and keep a copy to load the parameters from when the job ends."""
        path = self._written(state, "best")
        kept = self._work_dir / f"kept-{secrets.token_hex(4)}.checkpoint"
        shutil.copyfile(path, kept)
        self._send(Saved(str(path), "best", state))
        return kept

    def _written(self, state: LoopState, role: Role) -> Path:
        # Names are never reused: the parent may still be moving the earlier file.
        path = self._work_dir / f"{role}-{state.step}-{secrets.token_hex(4)}.checkpoint"
        self._engine.save(path)
        flush(path)
        return path


class BestCheckpoint:
    """The parameters with the lowest validation loss so far, for early stopping.

    path: their file, None before the first; metrics: their validation, if this process made it.
    """

    def __init__(self, saver: CheckpointWriter, path: Path | None) -> None:
        self._saver = saver
        self._kept: Path | None = None
        self.path = path
        self.metrics: dict[str, Any] = {}

    def offer(self, state: LoopState, metrics: dict[str, Any]) -> LoopState:
        """Keep the parameters if they are better; the returned state then has their loss."""
        loss = metrics["loss"]
        if state.best_loss is not None and loss >= state.best_loss:
            return state
        state = replace(state, best_loss=loss, stale_epochs=0)
        self.path, self.metrics = self._saver.save_best(state), metrics
        if self._kept is not None:
            self._kept.unlink()
        self._kept = self.path
        return state


def flush(path: Path) -> None:
    """Make a file and its name durable."""
    with path.open("rb+") as file:
        sync_file(file)
    sync_folder(path.parent)
