"""Losses with their gradients, written together: a sum over samples times a scale input.

A sample's loss is the mean over the numbers, or the positions, that it compares. With the scale
1/batch the sum is the mean over the batch; losses of a split batch add up. The scale is one number
for all samples or one for each, and has the output's rank, so that it broadcasts over a sample.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from msgspec import Struct

from service.training.graph.tensor import FLOAT, Tensor
from service.training.loss import TEMPERATURE, Loss
from storage.records.signatures import IGNORED

FEW = 64
"""Samples of up to this many numbers are scaled before summing: one node less, two reads more."""


class LossAndGradient(Struct, frozen=True):
    """A loss in a graph. gradient: of the compared output."""

    loss: Tensor
    gradient: Tensor


def compare(
    loss: Loss,
    output: Tensor,
    target: Tensor,
    scale: Tensor,
    *,
    class_vectors: Sequence[Tensor] = (),
    teacher: Sequence[Tensor] = (),
    label_scale: Tensor | None = None,
) -> LossAndGradient:
    """Write the loss and its gradient.

    output: float, axis 0 the batch. target: int64 without the class axis for cross entropy, else of
    the output's shape. scale: float, (1 or batch, 1, …). For a by_class loss, class_vectors: float,
    (classes,), and teacher: one of the output's shape. label_scale: if the loss scales labels, what
    the output was multiplied with.
    """
    if loss.name == "cross_entropy":
        axis = output.axis(loss.class_axis)
        found = _cross_entropy(loss, output, target.unsqueeze(axis), scale, class_vectors)
        positions = [a for a in output.axes(None)[1:] if a != axis]
        for each in teacher:
            pull = _towards(each, output, axis) * _by_position(scale, output, positions)
            found = LossAndGradient(found.loss, (found.gradient + pull).known_like(output))
        return found
    scale = _by_position(scale, output, output.axes(None)[1:])
    value, slope = LOSSES[loss.name](loss, output, target)
    if label_scale is not None:
        slope = slope / label_scale / _unit(loss, label_scale)
    return LossAndGradient(total(value, scale), (slope * scale).known_like(output))


def total(value: Tensor, scale: Tensor) -> Tensor:
    """The sum, with each sample's part scaled. value: float, axis 0 the batch."""
    rest = (value.shape or ())[1:]
    if not all(isinstance(size, int) and size <= FEW for size in rest) or len(rest) > 1:
        value = value.sum(value.axes(None)[1:], keep=True)
    return (value * scale).sum()


def mse(_: Loss, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Squared difference."""
    error = output - target
    return error * error, error * 2


def l1(_: Loss, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Absolute difference; gradient 0 where it is 0."""
    error = output - target
    return error.abs(), error.sign()


def huber(loss: Loss, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """Squared up to delta, linear beyond: c·(|e| - c/2), where c = min(|e|, delta)."""
    error = output - target
    low, high = (output.graph.numbers(s * loss.delta, output.dtype) for s in (-1, 1))
    near = error.op("Clip", low, high)
    return near * (error - near * 0.5), near


def bce_with_logits(_: Loss, logits: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """max(x, 0) - x·t + log(1 + exp(-|x|)): finite for any logit, unlike log(sigmoid(x))."""
    tail = (-logits.abs()).op("Softplus")
    return logits.op("Relu") - logits * target + tail, logits.op("Sigmoid") - target


LOSSES: dict[str, Callable[[Loss, Tensor, Tensor], tuple[Tensor, Tensor]]] = {
    "bce_with_logits": bce_with_logits,
    "huber": huber,
    "l1": l1,
    "mse": mse,
}


def _unit(loss: Loss, label_scale: Tensor) -> Tensor | float:
    """What divides a gradient for standardized labels so that it is about 1, as its labels are.

    Huber's is linear beyond a small delta, and must not vanish with it.
    """
    if loss.name == "huber":
        return label_scale.op("Min", label_scale.graph.numbers(loss.delta, label_scale.dtype))
    return label_scale if loss.name == "mse" else 1.0


def _cross_entropy(
    loss: Loss, logits: Tensor, target: Tensor, scale: Tensor, class_vectors: Sequence[Tensor]
) -> LossAndGradient:
    """-Σ q·log softmax, whose gradient is softmax·Σq - q. q: the target of each class.

    Without weights of classes, Σq is 1, or 0 where a position is ignored.
    """
    axis = logits.axis(loss.class_axis)
    wanted = _wanted(loss, logits, target, axis, class_vectors)
    scale = _by_position(scale, logits, [a for a in logits.axes(None)[1:] if a != axis])
    logs = _log_softmax(logits, axis)
    share, pull = logs.exp(), scale
    if loss.class_weights is not None or loss.by_class:
        share = share * wanted.sum([axis], keep=True)
    elif logits.rank > 2:
        pull = scale * (~target.equal(IGNORED)).cast_like(scale)
    gradient = ((share - wanted) * pull).known_like(logits)
    return LossAndGradient(-total(logs * wanted, scale), gradient)


def _log_softmax(logits: Tensor, axis: int) -> Tensor:
    """Written out for an inner axis, where the runtime's operator takes five times as long."""
    if axis == logits.rank - 1 or logits.dtype != FLOAT:
        return logits.op("LogSoftmax", axis=axis)
    centred = logits - logits.op("ReduceMax", logits.graph.ints([axis]), keepdims=1)
    return centred - centred.exp().sum([axis], keep=True).log()


def _towards(teacher: Tensor, logits: Tensor, axis: int) -> Tensor:
    """The gradient of the distillation loss T²·Σ t·(log t - log softmax(logits/T)).

    teacher: t, times the weight of the distillation. T² makes its gradients as large
    as those of the labels, whatever T is: Hinton et al. (2015), Distilling the Knowledge in a
    Neural Network, 2.
    """
    share = (logits * (1 / TEMPERATURE)).op("Softmax", axis=axis)
    return (share * teacher.sum([axis], keep=True) - teacher) * TEMPERATURE


def _wanted(
    loss: Loss, logits: Tensor, target: Tensor, axis: int, class_vectors: Sequence[Tensor]
) -> Tensor:
    """One at the target's class, smoothed, weighted, and zero where the target is ignored."""
    graph = logits.graph
    shape = [1] * logits.rank
    shape[axis] = -1
    count = _classes(logits, axis)
    classes = np.arange(count, dtype=np.int64).reshape(shape)
    wanted = graph.constant(classes).equal(target).cast_like(logits).known_like(logits)
    if loss.by_class:
        behind = range(1, logits.rank - axis)
        on, off = (each.unsqueeze(*behind) for each in class_vectors)
        kept = wanted.sum([axis], keep=True)
        return ((wanted * on + off) * kept).known_like(logits)
    if loss.label_smoothing:
        kept = wanted.sum([axis], keep=True)
        wanted = (wanted * (1 - loss.label_smoothing) + loss.label_smoothing / count) * kept
    if loss.class_weights is not None:
        weights = np.array(loss.class_weights).reshape(shape)
        wanted = wanted * graph.constant(weights).cast_like(logits)
    return wanted.known_like(logits)


def _classes(logits: Tensor, axis: int) -> int:
    size = logits.shape[axis] if logits.shape else None
    if not isinstance(size, int):
        raise ValueError(f'axis {axis} of "{logits.name}", the classes, has no fixed size')
    return size


def _by_position(scale: Tensor, output: Tensor, axes: list[int]) -> Tensor:
    """The scale divided by the number of values or positions that a sample compares."""
    sizes = [output.shape[a] if output.shape else None for a in axes]
    count = 1
    for size in sizes:
        if not isinstance(size, int):
            every = output.op("Shape").op("Gather", output.graph.ints(axes), axis=0)
            return scale / every.op("ReduceProd", keepdims=0).cast_like(scale)
        count *= size
    return scale * (1 / max(count, 1))
