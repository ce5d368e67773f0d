"""Losses with their gradients in a graph, written together: a sum over samples times a scale input.

A sample's loss is the mean over the numbers, or the positions, that it compares. With the scale
1/batch the sum is the mean over the batch; losses of a split batch add up. The scale is one number
for all samples or one for each, and has the output's rank, so that it broadcasts over a sample.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from msgspec import Struct

if TYPE_CHECKING:
    from service.training.graph.tensor import Tensor

FEW = 64
"""Samples of up to this many numbers are scaled before summing: one node less, two reads more."""


class LossInputs(Struct, frozen=True):
    """What a loss is written with. output: float, axis 0 the batch. scale: float, (1 or batch, 1,
    …). target: None if the graph computes the loss itself. For a by_class loss, class_vectors:
    float, (classes,), and teacher: one of the output's shape. label_scale: if the loss scales
    labels, what the output was multiplied with.
    """

    output: Tensor
    scale: Tensor
    target: Tensor | None = None
    class_vectors: Sequence[Tensor] = ()
    teacher: Sequence[Tensor] = ()
    label_scale: Tensor | None = None


class LossAndGradient(Struct, frozen=True):
    """A loss in a graph. gradient: of the compared output."""

    loss: Tensor
    gradient: Tensor


def total(value: Tensor, scale: Tensor) -> Tensor:
    """The sum, with each sample's part scaled. value: float, axis 0 the batch."""
    rest = (value.shape or ())[1:]
    if not all(isinstance(size, int) and size <= FEW for size in rest) or len(rest) > 1:
        value = value.sum(value.axes(None)[1:], keep=True)
    return (value * scale).sum()
