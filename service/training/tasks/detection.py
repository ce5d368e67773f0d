"""Boxes on photos, by a map of each class and four of their places: see boxes.py.

Source of the loss: Zhou et al. (2019), Objects as Points, equations 1 to 4, with places learned
near a middle too, as Liu et al. (2020) have it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
from msgspec.structs import replace

from service.training.engine import Array
from service.training.errors import misfit, refuse
from service.training.loss import Loss
from service.training.tasks.average_precision import (
    BoxMetrics,
    mean_precision,
    rows_of,
)
from service.training.tasks.boxes import MOST_BOXES, SIDES, FoundBoxes, assigned, found
from service.training.tasks.loss_graph import LossAndGradient, LossInputs
from service.training.tasks.task import LearningTask, Metric, PassMetrics, PerSample
from storage.arrays import NDArray
from storage.records.signatures import TargetSpec

if TYPE_CHECKING:
    from service.training.graph.tensor import Tensor


def detection_loss(output: Array, target: Array) -> PerSample:
    """Of each photo. output: (batch, classes + 4, height, width). target: boxes, (batch, n, 5)."""
    maps = assigned(target, output.shape[1:]).astype(np.float64)
    wide = output.astype(np.float64)
    x, heat = wide[:, :-SIDES], maps[:, :-SIDES]
    log_p, log_q = -np.logaddexp(0, -x), -np.logaddexp(0, x)
    p, q = np.exp(log_p), np.exp(log_q)
    is_middle = heat == 1
    of_cells = np.where(is_middle, q**2 * log_p, (1 - heat) ** 4 * p**2 * log_q)
    middles = np.maximum(is_middle.sum(axis=(1, 2, 3)), 1)
    near = heat.max(axis=1, keepdims=True)
    error = near * np.abs(wide[:, -SIDES:] - maps[:, -SIDES:])
    places = error.sum(axis=(1, 2, 3)) / np.maximum(near.sum(axis=(1, 2, 3)), 1)
    losses: PerSample = places - of_cells.sum(axis=(1, 2, 3)) / middles
    return losses


class Detection(LearningTask):
    """Maps (batch, classes + 4, height, width) of any grid; a label is boxes with classes."""

    name = "detection"
    title = "detection: boxes on photos, with a class each"
    metrics = (
        Metric("map_50", rows_of, True, of_rows=partial(mean_precision, thresholds=1)),
        Metric("map", rows_of, True, of_rows=mean_precision),
        Metric("loss", detection_loss),
    )
    by_class = (Metric("ap", rows_of, True),)
    takes_class_names = has_doubt = True
    last_operators = (("Sigmoid", "the probabilities of classes"),)

    def metric(
        self, name: str, target: TargetSpec | None = None, place: int | None = None
    ) -> Metric:
        if place is None:
            return super().metric(name)
        (own,) = self.by_class
        return replace(own, of_rows=partial(mean_precision, kind=place))

    def compare(self, loss: Loss, inputs: LossInputs) -> LossAndGradient:
        """Each photo's loss is the mean over its boxes, at least one."""
        assert inputs.target is not None
        output, target, scale = inputs.output, inputs.target, inputs.scale
        places = output.whole_from(1)[0] - SIDES
        x, wanted = (tensor.slice([places], [places + SIDES], [1]) for tensor in (output, target))
        heat = target.slice([0], [places], [1])
        near = heat.op("ReduceMax", output.graph.ints([1]), keepdims=1)
        share = scale / _at_least_one(near.sum([1, 2, 3], keep=True))
        error = (x - wanted) * near
        cells, slope, middles = _focal(output.slice([0], [places], [1]), heat)
        part = scale / _at_least_one(middles.sum([1, 2, 3], keep=True))
        value = cells.sum([1, 2, 3], keep=True) * part
        value = value + error.abs().sum([1, 2, 3], keep=True) * share
        gradient = (slope * part).op("Concat", error.sign() * near * share, axis=1)
        return LossAndGradient(value.sum(), gradient.known_like(output))

    def fed(self, target: Array, shape: Sequence[int]) -> Array:
        return assigned(target, shape)

    def fed_target(self, target: TargetSpec, row: Sequence[int]) -> TargetSpec:
        return TargetSpec("maps", "float32", tuple(row))

    def name_count(self, target: TargetSpec) -> int:
        return target.box_classes or 0

    def target_spec(self, output: Sequence[int], classes: tuple[str, ...] | None) -> TargetSpec:
        if len(output) != 3 or output[0] <= SIDES:
            takes = f"maps (batch, classes + {SIDES}, height, width) with one class or more"
            raise misfit(self.name, takes, output)
        count = output[0] - SIDES
        if classes is not None and not len(set(classes)) == len(classes) == count:
            detail = f"{len(classes)} names given, the output has maps of {count} classes"
            raise refuse("/spec/classes", f"{detail}; give {count} different names")
        shape = (MOST_BOXES, SIDES + 1)
        return TargetSpec("boxes", "float32", shape, classes=classes, box_classes=count)

    def notes(self, output: Sequence[int]) -> list[str]:
        count, height, width = output
        return [
            f"axis 1 of the output is the logits of {count - SIDES} classes, then middle, width and"
            f" height of the box, at each of {height}\u00d7{width} cells"
        ]

    def pass_metrics(self, target: TargetSpec) -> PassMetrics:
        return BoxMetrics()

    def doubt(self, output: Array, target: Array) -> PerSample:
        """The sum of the entropies of its boxes, in nats: whether each is there.

        Source of the sum: Brust et al. (2019), Active Learning for Deep Object Detection.
        """
        del target
        return np.array([_entropy(box.probabilities).sum() for box in self.boxes(output)])

    def boxes(self, output: Array) -> list[FoundBoxes]:
        return [found(maps) for maps in output]

    def output_shape(self, target: TargetSpec) -> tuple[int, ...]:
        return ((target.box_classes or 0) + SIDES, -1, -1)


def _focal(x: Tensor, heat: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The loss of each cell of the maps of classes, its derivative, and where middles are.

    With q = 1 - p, -q²·log p at a middle, and -(1 - heat)⁴·p²·log q elsewhere.
    """
    p, q = x.op("Sigmoid"), (-x).op("Sigmoid")
    log_p, log_q = -(-x).op("Softplus"), -x.op("Softplus")
    middle = heat.equal(1.0)
    away = (1 - heat) ** 2 * (1 - heat) ** 2
    cells = -middle.where(q * q * log_p, away * p * p * log_q)
    slope = middle.where(q * q * (p * log_p * 2 - q), away * p * p * (p - q * log_q * 2))
    return cells, slope, middle.cast_like(x)


def _entropy(p: NDArray[np.float64]) -> NDArray[np.float64]:
    """In nats, of yes and no. p: of yes, above 0."""
    q = np.maximum(1 - p, np.finfo(np.float64).tiny)
    entropies: NDArray[np.float64] = -(p * np.log(p) + q * np.log(q))
    return entropies


def _at_least_one(count: Tensor) -> Tensor:
    return count.op("Max", count.graph.numbers(1.0, count.dtype))
