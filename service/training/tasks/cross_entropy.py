"""Cross entropy: one class of several for each sample, or for each of its positions."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np

from service.training.data.counting import counts
from service.training.engine import Array
from service.training.errors import refuse
from service.training.loss import TEMPERATURE, Loss
from service.training.tasks.by_class import (
    IOU,
    PRECISION,
    RECALL,
    balanced_accuracy,
    in_columns,
    macro_f1,
    mean_iou,
)
from service.training.tasks.loss_graph import LossAndGradient, LossInputs, total
from service.training.tasks.task import (
    LABEL,
    By,
    LearningTask,
    Metric,
    PassMetrics,
    PerSample,
    Row,
    columns,
    likeliest,
    mean_of_known,
)
from storage.arrays import NDArray
from storage.errors import counted
from storage.records.signatures import IGNORED, TargetSpec

if TYPE_CHECKING:
    from onnx import NodeProto

    from service.training.forward.graph import Graph
    from service.training.graph.tensor import Shape, Tensor


def cross_entropy(output: Array, target: Array) -> PerSample:
    """Mean over a sample's positions. output: (batch, classes, …) logits."""
    logits = output.astype(np.float64)
    logits -= logits.max(axis=1, keepdims=True)
    index = np.expand_dims(np.where(counts(target), target, 0), 1)
    chosen = np.take_along_axis(logits, index, axis=1).squeeze(1)
    return mean_of_known(np.log(np.exp(logits).sum(axis=1)) - chosen, target)


def right_classes(output: Array, target: Array) -> PerSample:
    """Share of a sample's positions that are right. output: (batch, classes, …)."""
    return mean_of_known(output.argmax(axis=1) == target, target)


def class_counts(output: Array, target: Array) -> PerSample:
    """(batch, 3 * classes): shares of a sample's positions that are rightly predicted as each
    class, of it, and predicted as it. output: (batch, classes, …).
    """
    classes, counted, guess = output.shape[1], columns(counts(target)), output.argmax(axis=1)
    truth, guess = columns(np.where(counts(target), target, 0)), columns(guess)
    rows = np.arange(len(truth))[:, None] * classes
    share = counted / np.maximum(counted.sum(axis=1, keepdims=True), 1)

    def of_each(chosen: NDArray[Any], weights: NDArray[Any]) -> NDArray[np.float64]:
        places = (rows + chosen).ravel()
        summed = np.bincount(places, weights.ravel(), len(truth) * classes)
        return summed.astype(np.float64).reshape(-1, classes)

    right = of_each(truth, share * (truth == guess))
    return in_columns(right, of_each(truth, share), of_each(guess, share))


def softmax(logits: Array) -> Array:
    """Along axis 1, in float64. logits: (batch, classes, …)."""
    wide = logits.astype(np.float64)
    with np.errstate(invalid="ignore"):
        powers = np.exp(wide - wide.max(axis=1, keepdims=True))
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def entropy(output: Array) -> NDArray[np.float64]:
    """In nats, along axis 1. output: (batch, classes, …) logits."""
    logits = output.astype(np.float64)
    logits = logits - logits.max(axis=1, keepdims=True)
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    nats: NDArray[np.float64] = -(np.exp(logs) * np.maximum(logs, np.finfo(np.float64).min)).sum(
        axis=1
    )
    return nats


class CrossEntropy(LearningTask):
    """Class indices by logits (batch, classes, …), as in PyTorch."""

    name = "cross_entropy"
    title = "cross entropy: one class per sample or position"
    label_dtype = "int64"
    metrics = (
        Metric("accuracy", right_classes, True),
        Metric("balanced_accuracy", class_counts, True, balanced_accuracy),
        Metric("macro_f1", class_counts, True, macro_f1),
        Metric("mean_iou", class_counts, True, mean_iou),
        Metric("loss", cross_entropy),
    )
    by_class = (
        Metric("recall", class_counts, True, of_class=RECALL),
        Metric("precision", class_counts, True, of_class=PRECISION),
        Metric("iou", class_counts, True, of_class=IOU),
    )
    options = frozenset(
        {
            *("label_smoothing", "class_weights", "ignore_index", "distillation"),
            *("head", "sampling", "calibrate"),
        }
    )
    has_classes = takes_class_names = ranks_classes = True
    has_doubt = True
    last_operators = (
        ("Softmax", "the probabilities of classes"),
        ("LogSoftmax", "the logarithms of probabilities of classes"),
    )

    def compare(self, loss: Loss, inputs: LossInputs) -> LossAndGradient:
        return compare(loss, inputs)

    def target_shape(self, loss: Loss, output: Shape) -> Shape:
        axis = loss.class_axis % len(output)
        return (*output[:axis], *output[axis + 1 :])

    def weight(self, loss: Loss, target: Array) -> float:
        if loss.class_weights is None and target.ndim == 1:
            return float(len(target))
        counted = counts(target)
        weights: Any = 1.0
        if loss.class_weights is not None:
            weights = np.take(loss.class_weights, np.where(counted, target, 0))
        return float((weights * counted).sum() / target[0].size)

    def target_spec(self, output: Sequence[int], classes: tuple[str, ...] | None) -> TargetSpec:
        if not output or output[0] < 2:
            raise refuse(
                "/spec/loss",
                f"{self.name} takes logits (batch, classes, …) with two classes or more, the "
                f"output is {_shown(output)}; choose bce_with_logits or mse{_turned(output)}",
            )
        count = output[0]
        if classes is not None and len(classes) != count:
            raise refuse(
                "/spec/classes",
                f"{counted(len(classes), 'class name')}, the output has {counted(count, 'logit')}; "
                "give a name for each" + (_turned(output) if len(classes) == output[-1] else ""),
            )
        if classes is not None and len(set(classes)) != len(classes):
            twice = next(name for at, name in enumerate(classes) if name in classes[:at])
            raise refuse("/spec/classes", f"class {twice!r} is named twice; names must differ")
        positions = tuple(output[1:])
        return TargetSpec("labels", "int64", positions, count, classes, may_ignore=bool(positions))

    def notes(self, output: Sequence[int]) -> list[str]:
        """Which axis holds the classes if there are others: a swap cannot be detected otherwise."""
        if len(output) < 2:
            return []
        count, *positions = output
        places = "\u00d7".join(map(str, positions))
        return [
            f"the classes are axis 1 of the output {_shown(output)}: {count} classes at each of "
            f"{places} positions{_turned(output)}"
        ]

    def written_by(self, graph: Graph, node: NodeProto, label: str) -> str | None:
        return str(node.input[0]) if node.op_type == "SoftmaxCrossEntropyLoss" else None

    def suggestion(self, row: Row, inputs: Sequence[Row]) -> str | None:
        shown = "\u00d7".join(map(str, row))
        if not row or (row[0] or 0) < 2:
            return None
        if len(row) == 1:
            return f"is {shown} numbers a sample: logits of classes"
        is_of_positions = any(len(row) == len(shape) and row[1:] == shape[1:] for shape in inputs)
        if not is_of_positions or row in inputs:
            return None
        return f"is {shown}: classes at each position"

    def pass_metrics(self, target: TargetSpec) -> PassMetrics:
        from service.training.evaluation.metrics import Classification

        if target.num_classes is None:
            detail = f"target {target.name!r} holds class indices; it must say num_classes"
            raise ValueError(detail)
        return Classification(target.num_classes)

    def compared_by(self, target: TargetSpec) -> By:
        return "class" if prod(target.shape) == 1 else "share"

    def doubt(self, output: Array, target: Array) -> PerSample:
        """Entropy in nats, the mean over the sample's positions."""
        del target
        per_sample: PerSample = columns(entropy(output)).mean(axis=1)
        return per_sample

    def prediction(self, output: Array, *, top: int | None) -> dict[str, Array]:
        """The likeliest class as `label`, an index, its `probability`, and `probabilities` by class
        (softmax); a class for each of several positions: `label` alone. With `top` instead, the
        likeliest classes.
        """
        probabilities: NDArray[Any] = softmax(output).astype(output.dtype)
        if top is not None:
            return likeliest(probabilities, top)
        index_type = np.min_scalar_type(probabilities.shape[1] - 1)
        fields: dict[str, Array] = {LABEL: probabilities.argmax(axis=1).astype(index_type)}
        if probabilities.ndim == 2:
            fields["probability"] = probabilities.max(axis=1)
            fields["probabilities"] = probabilities
        return fields

    def output_shape(self, target: TargetSpec) -> tuple[int, ...]:
        return (target.num_classes or 0, *target.shape)


def compare(loss: Loss, inputs: LossInputs) -> LossAndGradient:
    """Cross entropy along the loss's class axis, and a teacher's pull, if there is one."""
    output, scale = inputs.output, inputs.scale
    axis = output.axis(loss.class_axis)
    compared = _compare(loss, inputs, axis)
    positions = [a for a in output.axes(None)[1:] if a != axis]
    for teacher in inputs.teacher:
        pull = _towards(teacher, output, axis) * scale.per_number(output, positions)
        compared = LossAndGradient(compared.loss, (compared.gradient + pull).known_like(output))
    return compared


def _compare(loss: Loss, inputs: LossInputs, axis: int) -> LossAndGradient:
    """-Σ q·log softmax, whose gradient is softmax·Σq - q. q: the target of each class.

    Unless it is fed by class, Σq is 1, or 0 where a position is ignored.
    """
    assert inputs.target is not None
    logits, target = inputs.output, inputs.target.unsqueeze(axis)
    wanted = _wanted(loss, logits, target, axis, inputs.class_vectors)
    scale = inputs.scale.per_number(logits, [a for a in logits.axes(None)[1:] if a != axis])
    logs = logits.log_softmax(axis)
    share, pull = logs.exp(), scale
    if loss.by_class:
        share = share * wanted.sum([axis], keep=True)
    elif logits.rank > 2:
        pull = scale * (~target.equal(IGNORED)).cast_like(scale)
    gradient = ((share - wanted) * pull).known_like(logits)
    return LossAndGradient(-total(logs * wanted, scale), gradient)


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
    """One at the target's class, smoothed and weighted if by class, zero where it is ignored."""
    shape = [1] * logits.rank
    shape[axis] = -1
    classes = np.arange(_classes(logits, axis), dtype=np.int64).reshape(shape)
    wanted = logits.graph.constant(classes).equal(target).cast_like(logits).known_like(logits)
    if not loss.by_class:
        return wanted
    behind = range(1, logits.rank - axis)
    on, off = (vector.unsqueeze(*behind) for vector in class_vectors)
    kept = wanted.sum([axis], keep=True)
    return ((wanted * on + off) * kept).known_like(logits)


def _classes(logits: Tensor, axis: int) -> int:
    size = logits.shape[axis] if logits.shape else None
    if not isinstance(size, int):
        raise ValueError(f'axis {axis} of "{logits.name}", the classes, has no fixed size')
    return size


def _shown(output: Sequence[int]) -> str:
    return f"({', '.join(map(str, ('batch', *output)))})"


def _turned(output: Sequence[int]) -> str:
    """Advice if the last axis may hold the classes; empty if it cannot."""
    if len(output) < 2 or output[-1] < 2:
        return ""
    *positions, count = output
    return (
        f"; if the last axis holds the classes, transpose the output to "
        f"{_shown((count, *positions))}, (batch, classes, \u2026)"
    )
