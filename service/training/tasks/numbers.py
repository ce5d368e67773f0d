"""Numbers in units of their own: the losses of regression, which differ in how errors count."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from typing import TYPE_CHECKING

import numpy as np

from service.training.data.counting import counts
from service.training.engine import Array
from service.training.loss import Loss
from service.training.tasks.task import (
    By,
    LearningTask,
    Metric,
    PassMetrics,
    PerSample,
    Row,
    columns,
    mean_of_known,
)
from storage.arrays import NDArray
from storage.records.signatures import TargetSpec

if TYPE_CHECKING:
    from onnx import NodeProto

    from service.training.forward.graph import Graph
    from service.training.graph.tensor import Tensor

ROUNDING = 1e-12
"""Share of the mean square: a variance below it is what rounding leaves of equal labels."""


def absolute_error(output: Array, target: Array) -> PerSample:
    """Mean over a sample's outputs."""
    return mean_of_known(np.abs(_difference(output, target)), target)


def squared_error(output: Array, target: Array) -> PerSample:
    """Mean over a sample's outputs."""
    return mean_of_known(np.square(_difference(output, target)), target)


def explained(output: Array, target: Array) -> PerSample:
    """(batch, 4 * outputs): squared error, label and squared label, less the mean of all labels,
    and whether it is known; zeros where it is not.
    """
    known = columns(counts(target))
    truth = np.where(known, columns(target), 0.0)
    centred = known * (truth - truth.sum(axis=0) / np.maximum(known.sum(axis=0), 1))
    error = np.where(known, np.square(_difference(output, target)), 0.0)
    return np.concatenate([error, centred, np.square(centred), known], axis=1)


def r2(means: NDArray[np.float64]) -> float:
    """Mean R² of the outputs whose label varies; 0 if none does. means: of `explained`."""
    error, label, square, known = means.reshape(4, -1)
    variance = square - label**2 / np.where(known, known, 1.0)
    varies = variance > ROUNDING * square
    return float((1 - error[varies] / variance[varies]).mean()) if varies.any() else 0.0


def r2_of(means: NDArray[np.float64], place: int) -> float:
    """The R² of one output; 0 if its label does not vary."""
    return r2(means.reshape(4, -1)[:, place])


def absolute_errors(output: Array, target: Array) -> PerSample:
    """(batch, 2 * outputs), see `of_known`."""
    return of_known(np.abs(_difference(output, target)), target)


def squared_errors(output: Array, target: Array) -> PerSample:
    """(batch, 2 * outputs), see `of_known`."""
    return of_known(np.square(_difference(output, target)), target)


def of_known(errors: PerSample, target: Array) -> PerSample:
    """(batch, 2 * outputs): the errors that are known, and whether each is, as shares of a sample's
    known numbers, by which samples weigh.
    """
    known = columns(counts(target))
    parts = np.concatenate([np.where(known, errors, 0.0), known], axis=1)
    shares: PerSample = parts / known.mean(axis=1, keepdims=True)
    return shares


def mean_of(means: NDArray[np.float64], place: int) -> float:
    """The mean error of one output; 0 if no label is known. means: of `of_known`."""
    error, known = means.reshape(2, -1)[:, place]
    return float(error / known) if known else 0.0


def root(mean: NDArray[np.float64]) -> float:
    """Of a mean squared error, in the unit of the labels."""
    return float(np.sqrt(mean))


def huber(output: Array, target: Array) -> PerSample:
    """Mean over a sample's outputs; quadratic up to 1, linear beyond."""
    error = np.abs(_difference(output, target))
    near = np.minimum(error, 1.0)
    return mean_of_known(near * (error - near / 2), target)


def _difference(output: Array, target: Array) -> PerSample:
    difference: PerSample = columns(output).astype(np.float64) - columns(target)
    return difference


IN_UNITS = (
    Metric("mae", absolute_error),
    Metric("rmse", squared_error, figure=root),
    Metric("r2", explained, True, r2, of_set=True),
)


class Numbers(LearningTask):
    """Labels of the output's shape."""

    scales_labels = takes_class_names = True
    by_class = (
        Metric("mae", absolute_errors, of_class=mean_of),
        Metric("rmse", squared_errors, of_class=lambda means, place: sqrt(mean_of(means, place))),
        Metric("r2", explained, True, of_set=True, of_class=r2_of),
    )
    options = frozenset({"standardize_labels"})

    def of_numbers(self, loss: Loss, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        return self.of_error(loss, output - target)

    def of_error(self, loss: Loss, error: Tensor) -> tuple[Tensor, Tensor]:
        """The loss of each number and its derivative. error: output - target."""
        raise NotImplementedError

    def written_by(self, graph: Graph, node: NodeProto, label: str) -> str | None:
        if node.op_type != "Sub" or node.input[1] != label:
            return None
        readers = {reader.op_type for reader in graph.consumers(node.output[0])}
        return str(node.input[0]) if self.reads_error(graph, node, readers) else None

    def reads_error(self, graph: Graph, node: NodeProto, readers: set[str]) -> bool:
        """Whether operators of these types, which read the error, compute this loss."""
        return False

    def pass_metrics(self, target: TargetSpec) -> PassMetrics:
        from service.training.evaluation.metrics import Regression

        return Regression(by_label=bool(target.number_names))

    def compared_by(self, target: TargetSpec) -> By:
        return "absolute"


class SquaredError(Numbers):
    """Squared difference."""

    name = "mse"
    title = "mean squared error: numbers"
    metrics = (*IN_UNITS, Metric("loss", squared_error))

    def of_error(self, loss: Loss, error: Tensor) -> tuple[Tensor, Tensor]:
        return error * error, error * 2

    def label_unit(self, loss: Loss, label_scale: Tensor) -> Tensor:
        return label_scale

    def reads_error(self, graph: Graph, node: NodeProto, readers: set[str]) -> bool:
        return readers <= {"Pow", "Mul"} and graph.producer(node.input[0]) is not None

    def suggestion(self, row: Row, inputs: Sequence[Row]) -> str:
        """Numbers fit every output."""
        shown = "\u00d7".join(map(str, row)) or "1"
        if len(row) > 1 and row in inputs:
            return f"has the shape of an input, {shown}: numbers"
        return f"is {shown} number{'s' * (shown != '1')} a sample"


class AbsoluteError(Numbers):
    """Absolute difference; gradient 0 where it is 0."""

    name = "l1"
    title = "absolute error: numbers"
    metrics = (*IN_UNITS, Metric("loss", absolute_error))

    def of_error(self, loss: Loss, error: Tensor) -> tuple[Tensor, Tensor]:
        return error.abs(), error.sign()

    def reads_error(self, graph: Graph, node: NodeProto, readers: set[str]) -> bool:
        return readers == {"Abs"}


class Huber(Numbers):
    """Squared up to 1, linear beyond: c·(|e| - c/2), where c = min(|e|, 1)."""

    name = "huber"
    title = "Huber: numbers, with outliers"
    metrics = (*IN_UNITS, Metric("loss", huber))

    def of_error(self, loss: Loss, error: Tensor) -> tuple[Tensor, Tensor]:
        low, high = (error.graph.numbers(s, error.dtype) for s in (-1.0, 1.0))
        near = error.op("Clip", low, high)
        return near * (error - near * 0.5), near

    def label_unit(self, loss: Loss, label_scale: Tensor) -> Tensor:
        """Its gradient is constant beyond 1, and must not vanish with a large scale."""
        return label_scale.op("Min", label_scale.graph.numbers(1.0, label_scale.dtype))
