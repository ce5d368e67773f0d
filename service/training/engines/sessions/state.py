"""What training moves and how it is kept: parameters, running statistics, optimizer state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from service.training.engines import checkpoint, model_file
from service.training.engines.checkpoint import Head, slot_name
from service.training.engines.manifest import Manifest
from service.training.engines.ort_training import checkpoint_file
from service.training.engines.sessions.buffers import Buffers, Vector
from service.training.errors import CheckpointUnreadable
from service.training.optimizer.layout import lay_out
from service.training.optimizer.recipe import Recipe
from service.training.optimizer.rules import EMA, slots

ENGINE = "sessions"


class State:
    """All 0 until it is restored. steps: of the optimizer, done. shares: buffers of gradients."""

    def __init__(self, manifest: Manifest, recipe: Recipe, *, threads: int, shares: int) -> None:
        shapes = {each.name: each.shape for each in manifest.parameters}
        layout = lay_out(shapes, recipe, threads=threads)
        self._recipe = recipe
        self.buffers = Buffers(manifest.parameters, layout, shares=shares, slots=slots(recipe))
        self.parameters = self.buffers.views(self.buffers.parameters)
        self.statistics = {
            each.name: np.zeros(each.shape, np.float32) for each in manifest.statistics
        }
        self.steps = 0

    @property
    def measured(self) -> dict[str, Vector]:
        """Parameters and statistics of the model as it is evaluated and exported."""
        average = self.buffers.slots.get(EMA)
        parameters = self.parameters if average is None else self.buffers.views(average)
        return {**parameters, **self.statistics}

    def save(self, path: Path) -> None:
        head = Head(ENGINE, self.steps, self._recipe)
        checkpoint.save(path, head, {**self.parameters, **self.statistics, **self._slots()})

    def restore(self, path: Path) -> None:
        """Take over all of a checkpoint; one without an optimizer's state begins a new one.

        Raises CheckpointUnreadable.
        """
        head = self._head(path)
        if head.recipe is None:
            self.load_parameters(path)
            return
        if slots(head.recipe) != slots(self._recipe):
            raise CheckpointUnreadable(
                f"{path} holds the state of {head.recipe.optimizer} with"
                f" {_listed(head.recipe)}, the job trains with {self._recipe.optimizer}, which"
                f" needs {_listed(self._recipe)}; begin from the checkpoint's parameters instead"
            )
        checkpoint.load(path, {**self.parameters, **self.statistics, **self._slots()})
        self.steps = head.steps

    def load_parameters(self, path: Path) -> None:
        """Take over those that the checkpoint's model is measured with, and leave the optimizer.

        path: of this engine, or of On-Device Training. Raises CheckpointUnreadable.
        """
        if checkpoint_file.is_one(path):
            checkpoint.fill(path, self.parameters, checkpoint_file.read_parameters(path))
        else:
            self._load_own(path)
        if EMA in self.buffers.slots:
            self.buffers.slots[EMA][...] = self.buffers.parameters

    def _load_own(self, path: Path) -> None:
        recipe = self._head(path).recipe
        averaged = recipe is not None and EMA in slots(recipe)
        named = {
            slot_name(EMA, name) if averaged else name: array
            for name, array in self.parameters.items()
        }
        checkpoint.load(path, {**named, **self.statistics}, with_more=True)

    def export(self, skeleton: Path, path: Path, metadata: Mapping[str, str]) -> None:
        """Write the inference model, from one that lacks these tensors."""
        model_file.write_with(skeleton, self.measured, path, metadata)

    def _slots(self) -> dict[str, Vector]:
        return {
            slot_name(slot, name): array
            for slot, buffer in self.buffers.slots.items()
            for name, array in self.buffers.views(buffer).items()
        }

    def _head(self, path: Path) -> Head:
        head = checkpoint.read_head(path)
        if head.engine != ENGINE:
            raise CheckpointUnreadable(
                f"{path} was written by the engine {head.engine!r}, this one is {ENGINE!r}"
            )
        return head


def _listed(recipe: Recipe) -> str:
    return ", ".join(slots(recipe)) or "no state"
