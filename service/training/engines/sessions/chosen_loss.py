"""The loss of a model as a job chose it, and what its step is fed for that."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from service.training.engine import Array
from service.training.engines.manifest import Files, Manifest
from service.training.errors import ArtifactsUnreadable
from service.training.loss import TEACHER, Loss
from service.training.optimizer.options import LossOptions
from service.training.protocol.serialization import build
from service.training.tasks import TASKS

PLAIN = LossOptions()


class ChosenLoss:
    """step_model: the step of this loss. class_vectors: inputs of the step that stay the same.
    Raises ArtifactsUnreadable if the model has no step for the options.
    """

    def __init__(self, files: Files, manifest: Manifest, options: LossOptions) -> None:
        self.step_model = files.step_model
        self._plain = self._trained = build(Loss, manifest.loss)
        self.class_vectors: dict[str, NDArray[np.float32]] = {}
        self._classes, self._distills = manifest.classes, manifest.distills
        self._target, self._target_shape = manifest.target, manifest.target_shape
        if replace(options, ignore_index=None) == PLAIN:  # every step leaves out what is ignored
            return
        if files.class_step_model is None or manifest.classes is None:
            raise ArtifactsUnreadable(
                "the model has no step for label_smoothing or class_weights: they are of"
                " cross_entropy"
            )
        self.step_model = files.class_step_model
        self._trained = replace(
            self._plain,
            label_smoothing=options.label_smoothing,
            class_weights=options.class_weights,
        )
        self.class_vectors = self._trained.class_vectors(manifest.classes)
        if options.distillation and not manifest.distills:
            raise ArtifactsUnreadable(
                "the model was prepared by an earlier Hone, and its step knows no distillation;"
                " leave it out, or register the model anew"
            )

    def scale(self, target: Array) -> float:
        """The factor on the sum of a batch's losses that makes it their mean."""
        return _scale(self._trained, target)

    def counted(self, target: Array) -> float:
        """How much a batch counts beside others: texts by tokens, as batches differ in length."""
        positions = target.shape[1] if target.ndim == 2 else 1
        return TASKS[self._trained.name].weight(self._trained, target) * positions

    def plain_scale(self, target: Array) -> float:
        """The same in evaluation, which knows no options."""
        return _scale(self._plain, target)

    def labels(self, target: Array) -> dict[str, Array]:
        """What any step is fed of the labels."""
        if self._target is None:
            return {}
        return {self._target: TASKS[self._plain.name].fed(target, self._target_shape)}

    def feeds(self, target: Array, teacher: Array | None) -> dict[str, Array]:
        """The teacher's targets, rescaled to count by samples if classes have weights."""
        if not self.class_vectors or not self._distills:
            return {}
        if teacher is None:
            assert self._classes is not None
            shape = len(target), self._classes, *target.shape[1:]
            return {TEACHER: np.zeros(shape, np.float32)}
        counted = np.float32(TASKS[self._trained.name].weight(self._trained, target) / len(target))
        return {TEACHER: np.asarray(teacher * counted)}


def as_first(counted: float, earlier: Sequence[float]) -> float:
    """As a multiple of the first batch of a step that counts; 1 for none, which adds 0."""
    return counted / next(filter(None, earlier), counted or 1.0) or 1.0


def _scale(loss: Loss, target: Array) -> float:
    total = TASKS[loss.name].weight(loss, target)
    return 1 / total if total else 0.0
