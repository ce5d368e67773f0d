"""Training state: parameters, running statistics, optimizer state."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from service.training.engines import checkpoint
from service.training.engines.checkpoint import CheckpointHead, slot_name
from service.training.engines.manifest import Manifest, carry_over
from service.training.engines.ort_training import checkpoint_file
from service.training.engines.sessions.buffers import Buffers, Vector
from service.training.errors import CheckpointUnreadable
from service.training.loss import LABEL_MEAN, LABEL_SCALE
from service.training.optimizer.layout import lay_out
from service.training.optimizer.options import OptimizerOptions
from service.training.optimizer.rules import EMA, slots

ENGINE = "sessions"


class State:
    """All 0 until restored. updated: output of a step → the statistic whose new value it is. steps:
    optimizer steps done. shares: number of gradient buffers.

    rows: how many a run takes at most, if memory did not suffice for more.
    """

    def __init__(
        self, manifest: Manifest, options: OptimizerOptions, *, threads: int, shares: int
    ) -> None:
        shapes = {parameter.name: parameter.shape for parameter in manifest.parameters}
        layout = lay_out(shapes, options, threads=threads)
        self._options = options
        self.buffers = Buffers(manifest.parameters, layout, shares=shares, slots=slots(options))
        self.parameters = self.buffers.views(self.buffers.parameters)
        self.statistics = {
            each.name: np.zeros(each.shape, np.float32) for each in manifest.statistics
        }
        moved = [*self.statistics.values()][: len(manifest.updated)]
        self.updated = dict(zip(manifest.updated, moved, strict=True))
        self.steps = 0
        self.rows: int | None = None
        self._head = manifest.head
        self._adapters = manifest.adapters
        self._fresh: tuple[int, ...] = ()
        self._label_scale: dict[str, Vector] = {}

    @property
    def measured(self) -> dict[str, Vector]:
        """Parameters and statistics of the model as it is evaluated and exported."""
        average = self.buffers.slots.get(EMA)
        parameters = self.parameters if average is None else self.buffers.views(average)
        return {**parameters, **self.statistics}

    def end_training(self) -> None:
        """Free what only steps and checkpoints need."""
        self.buffers = self.buffers.on_host()
        self.buffers.free({EMA})

    def save(self, path: Path) -> None:
        self.buffers.fetch()
        classes = None if self._head is None else self._head.classes
        head = CheckpointHead(ENGINE, self.steps, self._options, classes, self._fresh, self.rows)
        checkpoint.save(path, head, {**self.parameters, **self.statistics, **self._slots()})

    def restore(self, path: Path) -> None:
        """Load a whole checkpoint; without optimizer state in it, the optimizer starts afresh.

        Raises CheckpointUnreadable.
        """
        self._restore(path)
        names = [name for name in (LABEL_SCALE, LABEL_MEAN) if name in self.statistics]
        self._label_scale = {name: self.statistics[name].copy() for name in names}

    def _restore(self, path: Path) -> None:
        head = self._head_of(path)
        if head.optimizer_options is None:
            self.load_parameters(path)
            return
        if slots(head.optimizer_options) != slots(self._options):
            raise CheckpointUnreadable(
                f"{path} holds the state of {head.optimizer_options.optimizer} with"
                f" {_listed(head.optimizer_options)}, the job trains with"
                f" {self._options.optimizer}, which needs {_listed(self._options)}; begin from the"
                " checkpoint's parameters instead"
            )
        checkpoint.load(path, {**self.parameters, **self.statistics, **self._slots()})
        self.steps, self._fresh, self.rows = head.steps, head.fresh, head.rows

    def load_parameters(self, path: Path) -> None:
        """Load the parameters that the checkpoint's model is measured with; optimizer state stays.

        path: a checkpoint of this engine or of On-Device Training, with the current or earlier
        classes, or a file with only parameters, which others share: with the scale of labels that
        was restored. Raises CheckpointUnreadable.
        """
        self.buffers.fetch()
        if checkpoint_file.is_one(path):
            tensors = checkpoint_file.read_parameters(path)
            checkpoint.fill(
                path, self.parameters, self._with_classes(tensors, CheckpointHead(ENGINE))
            )
        elif checkpoint.is_bare(path):
            checkpoint.load(path, self.parameters)
            self._fresh = ()
            for name, array in self._label_scale.items():
                self.statistics[name][...] = array
        else:
            self._load_own(path)
        if EMA in self.buffers.slots:
            self.buffers.slots[EMA][...] = self.buffers.parameters
        self.buffers.send()

    def _load_own(self, path: Path) -> None:
        head = self._head_of(path)
        names = checkpoint.measured_names(path, self.parameters)
        axes = {} if self._head is None else self._head.axes
        kept = {names[n]: array for n, array in self.parameters.items() if n not in axes}
        rows = checkpoint.read(path, [names[n] for n in axes])
        tensors = self._with_classes({n: rows[names[n]] for n in axes}, head)
        heads = {n: self.parameters[n] for n in axes}
        checkpoint.fill(path, heads, tensors)
        checkpoint.load(path, {**kept, **self.statistics}, with_more=True)

    def _with_classes(self, tensors: dict[str, Vector], head: CheckpointHead) -> dict[str, Vector]:
        """With rows for the head's current classes. head: metadata of what was found."""
        if self._head is None or not tensors.keys() >= self._head.axes.keys():
            return tensors
        now, axes = self._head.classes, self._head.axes
        then = head.classes
        if then is None:
            count = tensors[self._head.weight].shape[self._head.axis]
            then = tuple(range(count))
        learned = [class_id for class_id in then if class_id not in head.fresh]
        self._fresh = tuple(class_id for class_id in now if class_id not in learned)
        moved = {
            name: carry_over(tensors[name], axis, then=then, now=now, fresh=head.fresh)
            for name, axis in axes.items()
        }
        return {**tensors, **moved}

    def export(self, skeleton: Path, path: Path, metadata: Mapping[str, str]) -> None:
        """Write the inference model, from a skeleton without these tensors."""
        from service.training.engines import model_file  # late: only a job's end needs it

        self.buffers.fetch()
        model_file.write_with(skeleton, self.measured, path, metadata, self._adapters)

    def _slots(self) -> dict[str, Vector]:
        return {
            slot_name(slot, name): array
            for slot, buffer in self.buffers.slots.items()
            for name, array in self.buffers.views(buffer).items()
        }

    def _head_of(self, path: Path) -> CheckpointHead:
        head = checkpoint.read_head(path)
        if head.engine != ENGINE:
            raise CheckpointUnreadable(
                f"{path} was written by the engine {head.engine!r}, this one is {ENGINE!r}"
            )
        return head


def _listed(options: OptimizerOptions) -> str:
    return ", ".join(slots(options)) or "no state"
