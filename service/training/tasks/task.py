"""What a task of learning declares: its loss, its labels, its metrics, and what predictions say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from service.training.data.counting import counts
from service.training.engine import Array
from service.training.errors import refuse
from service.training.loss import Loss
from service.training.tasks.loss_graph import LossAndGradient, LossInputs, total
from storage.arrays import NDArray
from storage.records.signatures import TargetSpec

if TYPE_CHECKING:
    from onnx import NodeProto

    from service.training.forward.graph import Graph
    from service.training.graph.tensor import Shape, Tensor
    from service.training.tasks.boxes import FoundBoxes

PerSample: TypeAlias = "NDArray[np.float64]"
"""(batch,)"""
LABEL, TOP = "label", "top"
"""Fields of predictions that hold indices of classes; `top/label` is the field `label` of `top`."""
VALUES = "values"
"""The field of a prediction that holds an output as it is."""
By = Literal["class", "share", "absolute", "loss"]
"""How two versions are compared sample by sample; see `Compared`."""
Row: TypeAlias = "tuple[int | None, ...]"
"""The shape of one row of a tensor."""


class Metric(Struct, frozen=True):
    """A figure that the gate may compare: a mean over samples, weighted by what counts of each.

    of_samples: from outputs and targets, batch axis first. higher_is_better: a share from 0 to 1,
    whose margins are differences; other metrics are errors, whose margins are shares of them.
    figure: computes it from the mean of several numbers that of_samples gives for each sample.
    of_set: of_samples compares samples with each other, and takes all of them at once. of_rows:
    computes it of several sets at once, (sets,), from what of_samples gives for each sample, and
    from how often each sample is in a set, (sets, samples). of_class: as `figure`, that of one
    class, by its place.
    """

    name: str
    of_samples: Callable[[Array, Array], PerSample]
    higher_is_better: bool = False
    figure: Callable[[NDArray[np.float64]], float] | None = None
    of_set: bool = False
    of_rows: Callable[[PerSample, PerSample], PerSample] | None = None
    of_class: Callable[[NDArray[np.float64], int], float] | None = None

    def of_mean(self, scores: PerSample) -> float:
        """The figure of these samples, at least one."""
        if self.of_rows is not None:
            return float(self.of_rows(scores, np.ones((1, len(scores))))[0])
        mean = scores.mean(axis=0)
        return float(mean) if self.figure is None else self.figure(mean)

    def gain(self, before: float, after: float) -> float:
        """How much better the second figure is."""
        return after - before if self.higher_is_better else before - after

    def margin_unit(self, before: float) -> float:
        """What a margin of the gate is multiplied with."""
        return 1.0 if self.higher_is_better else abs(before)


class PassMetrics:
    """Metrics of a pass, accumulated over batches, most in constant memory: none but the loss.

    A value that is undefined is None; no value is NaN or infinite.
    """

    def weights(self, target: Array) -> PerSample:
        """(batch,): the share of each sample's label that counts, the weight of its mean."""
        return np.ones(len(target))

    def read(self, metadata: Mapping[str, str]) -> None:
        """Take what an exported model's file says of itself, before any update."""

    def update(self, output: Array, target: Array) -> None:
        """output: as the engine returns it, batch axis first."""

    def result(self) -> dict[str, Any]:
        return {}


class LearningTask:
    """What a model learns, with the loss of this name.

    title: for people. label_dtype: of the target of the loss. compares_samples: with each other, so
    that batches are not split. metrics: for the gate, the default first. by_class: figures that are
    lists by class among the metrics of a pass. lists_by_class: names of further ones, which guards
    know alone. options: hyperparameters that only some tasks take. makes_labels: from a text's
    tokens, so that samples have none. has_classes: the output's axis 1 holds classes, which a label
    is an index of. names_several: whether a label may be a list of these names. ranks_classes:
    whether predictions take `top`. label_range: of a label's numbers, None for any. has_doubt:
    whether `doubt` is defined. last_operators: those that the loss applies itself, with what they
    compute.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    label_dtype: ClassVar[str] = "float32"
    compares_samples: ClassVar[bool] = False
    compares_inputs: ClassVar[bool] = False
    """Whether `targets` hold the inputs, so that these are no features."""
    tells_scores: ClassVar[bool] = False
    """Whether predictions are how unlike normal samples an input is."""
    trains_on: ClassVar[int | None] = None
    """The only class whose samples are trained on, if there is one; samples without a label are of
    it, too."""
    metrics: ClassVar[tuple[Metric, ...]]
    by_class: ClassVar[tuple[Metric, ...]] = ()
    lists_by_class: ClassVar[tuple[str, ...]] = ()
    options: ClassVar[frozenset[str]] = frozenset()
    labels_tokens: ClassVar[bool] = False
    """Whether it learns texts by a label of each token, made when they are tokenized."""
    takes_spans: ClassVar[bool] = False
    """Whether a label is spans of a text, of the target's `span_types`."""
    makes_labels: ClassVar[bool] = False
    has_classes: ClassVar[bool] = False
    scales_labels: ClassVar[bool] = False
    """Whether labels are numbers in any unit, which a job may standardize."""
    takes_class_names: ClassVar[bool] = False
    """Of classes, or of the numbers of a label."""
    names_several: ClassVar[bool] = False
    ranks_classes: ClassVar[bool] = False
    continues_texts: ClassVar[bool] = False
    """Whether outputs are logits of the next token at each, so that versions complete texts."""
    label_range: ClassVar[tuple[float, float] | None] = None
    has_doubt: ClassVar[bool] = False
    last_operators: ClassVar[tuple[tuple[str, str], ...]] = ()

    @property
    def figures_by_class(self) -> tuple[str, ...]:
        """The names of all lists by class."""
        return (*(metric.name for metric in self.by_class), *self.lists_by_class)

    def metric(
        self, name: str, target: TargetSpec | None = None, place: int | None = None
    ) -> Metric:
        """The metric of this name. target: of the labels, for those that depend on its classes.
        place: of one class.
        """
        del target
        if place is None:
            return next(metric for metric in self.metrics if metric.name == name)
        own = next(metric for metric in self.by_class if metric.name == name)
        of_class = own.of_class
        assert of_class is not None
        return replace(own, figure=lambda means: of_class(means, place))

    def metric_on(
        self, count: Callable[[], Sequence[int]], name: str, target: TargetSpec
    ) -> Metric:
        """The metric of this name, or another one if the samples do not tell it.

        count: counts them by class, which may take long.
        """
        del count
        return self.metric(name, target)

    def targets(self, labels: Array, inputs: Sequence[Array]) -> Array:
        """What predictions of a batch are compared with. inputs: as the model takes them."""
        del inputs
        return labels

    def check_inputs(self, inputs: Sequence[Row], output: Row) -> None:
        """Raises GraphRefused if the loss does not fit rows of these shapes."""

    def compare(self, loss: Loss, inputs: LossInputs) -> LossAndGradient:
        """Write the loss and its gradient into the graph of the inputs."""
        assert inputs.target is not None
        scale = inputs.scale.per_number(inputs.output, inputs.output.axes(None)[1:])
        value, slope = self.of_numbers(loss, inputs.output, inputs.target)
        if loss.has_unknown:
            unknown = inputs.target.op("IsNaN")
            value, slope = (unknown.where(0.0, tensor) for tensor in (value, slope))
        if inputs.label_scale is not None:
            slope = slope / inputs.label_scale / self.label_unit(loss, inputs.label_scale)
        return LossAndGradient(total(value, scale), (slope * scale).known_like(inputs.output))

    def of_numbers(self, loss: Loss, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Write the loss of each number of the output, and its derivative."""
        raise NotImplementedError

    def label_unit(self, loss: Loss, label_scale: Tensor) -> Tensor | float:
        """What divides a gradient for standardized labels so that it is about 1, as these are."""
        return 1.0

    def target_shape(self, loss: Loss, output: Shape) -> Shape | None:
        """Of a batch of labels; None if the loss compares with none. output: the output's."""
        return output

    def weight(self, loss: Loss, target: Array) -> float:
        """The divisor of the batch's losses, in samples: 1/weight is the scale to feed."""
        return float(counts(target).sum() / target[0].size if loss.has_unknown else len(target))

    def target_spec(self, output: Sequence[int], classes: tuple[str, ...] | None) -> TargetSpec:
        """The label's description.

        output: the shape of one row of the output. classes: names of its numbers, of which labels
        may then lack some. Raises GraphRefused if the loss does not fit.
        """
        if classes is not None and len(output) != 1:
            detail = f"names are of the numbers of a vector; a row of the output is {list(output)}"
            raise refuse("/spec/classes", f"{detail}, so leave them out")
        if classes is not None and not len(classes) == len({*classes}) == output[0]:
            detail = f"{len({*classes})} different names, the output has {output[0]} numbers"
            raise refuse("/spec/classes", f"{detail}; name each once")
        are_named = classes is not None
        return TargetSpec("target", "float32", tuple(output), classes=classes, may_ignore=are_named)

    def fed_target(self, target: TargetSpec, row: Sequence[int]) -> TargetSpec:
        """What a step is fed as the label. row: the shape of one row of the output."""
        del row
        return target

    def fed(self, target: Array, shape: Sequence[int]) -> Array:
        """What a step is fed of labels as batches have them. shape: of one row of what it takes."""
        del shape
        return target

    def name_count(self, target: TargetSpec) -> int:
        """How many class names it takes."""
        is_vector = self.takes_class_names and len(target.shape) == 1
        return target.num_classes or (target.shape[0] if is_vector else 0)

    def notes(self, output: Sequence[int]) -> list[str]:
        """What to say of the output at registration. output: the shape of one row."""
        return []

    def written_by(self, graph: Graph, node: NodeProto, label: str) -> str | None:
        """The output that the loss compares, if the node is that of this loss which reads the label
        in artifacts of Microsoft's tools.
        """
        return None

    def suggestion(self, row: Row, inputs: Sequence[Row]) -> str | None:
        """Why the task fits an output of this shape, None if another does. inputs: the inputs'."""
        return None

    def pass_metrics(self, target: TargetSpec) -> PassMetrics:
        """The metrics of one pass over samples."""
        return PassMetrics()

    def compared_by(self, target: TargetSpec) -> By:
        """What of each sample is compared between two versions."""
        return "loss"

    def doubt(self, output: Array, target: Array) -> PerSample:
        """How uncertain each prediction is. output: as the model computes it. target: of a text,
        which tokens count; others mean nothing, since the samples have no label.
        """
        raise NotImplementedError

    def prediction(self, output: Array, *, top: int | None) -> dict[str, Array]:
        """The fields of an answer, batch first. top: how many of the likeliest classes."""
        return {VALUES: output}

    def boxes(self, output: Array) -> list[FoundBoxes] | None:
        """The boxes of each photo of a batch; None if the task finds none."""
        return None

    def output_shape(self, target: TargetSpec) -> tuple[int, ...]:
        """The shape of one row of the output; -1 for a size that labels do not tell."""
        return target.shape


def mean_of_known(values: NDArray[Any], target: Array) -> PerSample:
    """Mean over what of each sample's label counts, at least one. values: (batch, …)."""
    mean: PerSample = np.mean(columns(values), axis=1, where=columns(counts(target)), dtype=float)
    return mean


def figure_of(metrics: Mapping[str, Any], name: str, place: int | None = None) -> Any:
    """A figure among the metrics of a pass, None if it is not there. place: of a class. If a figure
    of all has the same name, those of each are called `NAME_by_label`.
    """
    if place is None:
        return metrics.get(name)
    figure = metrics.get(f"{name}_by_label", metrics.get(name))
    return figure[place] if isinstance(figure, list) and 0 <= place < len(figure) else None


def columns(values: Array) -> NDArray[Any]:
    """(batch, outputs)."""
    return values.reshape(len(values), -1)


def ranks(scores: NDArray[Any], truth: NDArray[Any]) -> NDArray[np.int64]:
    """How many classes come before the true one; of equal scores the first, as argmax has it.

    scores: (n, classes). truth: (n,). A score that is no number comes last.
    """
    own = np.take_along_axis(scores, truth[:, None], axis=1)
    before: NDArray[np.int64] = scores.shape[1] - np.count_nonzero(scores <= own, axis=1)
    equal = scores == own
    for row in np.flatnonzero(np.count_nonzero(equal, axis=1) > 1):
        before[row] += np.count_nonzero(equal[row, : truth[row]])
    return before


def likeliest(probabilities: Array, top: int) -> dict[str, Array]:
    """The likeliest classes along axis 1 of two fields. probabilities: (batch, classes, …)."""
    values: NDArray[Any] = probabilities
    ranked = np.argsort(-values, axis=1, kind="stable")[:, :top]
    return {
        f"{TOP}/{LABEL}": ranked.astype(np.min_scalar_type(values.shape[1] - 1)),
        f"{TOP}/probability": np.take_along_axis(values, ranked, axis=1),
    }
