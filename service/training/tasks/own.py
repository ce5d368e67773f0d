"""A loss that the model computes itself, as one of its tensors.

service/training/forward/own_loss.py finds its label.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from service.training.loss import Loss
from service.training.tasks.boxes import padded
from service.training.tasks.loss_graph import LossAndGradient, LossInputs, total
from service.training.tasks.task import LearningTask, Metric

if TYPE_CHECKING:
    from service.training.engine import Array
    from service.training.graph.tensor import Shape
    from service.training.tasks.task import PerSample


def _only_by_the_model(output: Array, target: Array) -> PerSample:
    """Exported models no longer have it: service/training/evaluation/own_loss.py measures it."""
    raise NotImplementedError


class LossOfModel(LearningTask):
    """What the output means is not known: it is measured by the loss alone."""

    name = "output"
    title = "the model's own: one of its outputs"
    metrics = (Metric("loss", _only_by_the_model),)

    def compare(self, loss: Loss, inputs: LossInputs) -> LossAndGradient:
        """One loss per sample, or one number, the batch's mean."""
        value, scale = inputs.output, inputs.scale
        if value.shape == ():
            rows = next(iter(value.graph.inputs)).size(0)
            scale = scale * rows.squeeze(0).cast_like(value)
            return LossAndGradient(value * scale, scale)
        return LossAndGradient(total(value, scale), scale.expand_like(value))

    def fed(self, target: Array, shape: Sequence[int]) -> Array:
        """Boxes are padded to as many as the model takes."""
        if not shape or target.shape[1:] == (*shape,):
            return target
        return padded(target, shape[0])

    def target_shape(self, loss: Loss, output: Shape) -> None:
        """The graph has a label already, if it takes one."""
