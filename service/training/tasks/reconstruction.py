"""Anomalies: a model gives its input back, and what it gives back badly is unlike what it knows;
or it says how far a sample is from a prototype.

The score of a sample is the mean squared error, or the mean square of its distance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec import Struct

from service.training.engine import Array
from service.training.errors import refuse
from service.training.loss import Loss
from service.training.tasks.loss_graph import LossAndGradient, LossInputs, total
from service.training.tasks.numbers import squared_error
from service.training.tasks.task import LearningTask, Metric, PassMetrics, PerSample, Row, columns
from storage.arrays import NDArray
from storage.records.signatures import TargetSpec

if TYPE_CHECKING:
    from service.training.graph.tensor import Shape, Tensor

NORMAL, ANOMALOUS = 0, 1
NAMES = ("normal", "anomalous")
AUROC = "auroc"
END = 2**31 - 1
"""Beyond the numbers of any target."""


def scores(output: Array, target: Array) -> PerSample:
    """target: (batch, 1 + numbers): the label, and the input, if the output is no distance."""
    truth = columns(target)[:, 1:]
    return squared_error(output, truth if truth.shape[1] else np.zeros_like(output))


def is_anomalous(target: Array) -> NDArray[np.bool_]:
    """(batch,): whether the label says so."""
    return np.asarray(columns(target)[:, 0] == ANOMALOUS)


def placements(output: Array, target: Array) -> PerSample:
    """(samples, 5), of which `area` takes the mean: see `placed`."""
    return placed(scores(output, target), is_anomalous(target))


def placed(scores: PerSample, odd: NDArray[np.bool_]) -> PerSample:
    """scores: of samples. odd: (samples,), whether each is anomalous.

    The placement of an anomalous sample is the share of normal ones with a lower score, that of a
    normal one the share of anomalous ones with a higher score; equal scores count half. Columns:
    the anomalous samples' and whether each is one, the normal ones' likewise, and the area.
    """
    placements: PerSample = np.zeros((len(scores), 5))
    for column, (mine, others) in enumerate([(odd, ~odd), (~odd, odd)]):
        ranked = np.sort(scores[others])
        below, upto = (np.searchsorted(ranked, scores[mine], side) for side in ("left", "right"))
        share = (below + upto) / 2 / max(1, len(ranked))
        placements[mine, 2 * column] = 1 - share if column else share
        placements[mine, 2 * column + 1] = 1
    placements[:, 4] = placements[odd, 0].mean() if odd.any() else 0.0
    return placements


def area(means: NDArray[np.float64]) -> float:
    """The area under the ROC curve, also of samples that were drawn again. means: of `placed`.

    Its change is that of both means of placements, to first order. Source: DeLong, DeLong,
    Clarke-Pearson (1988), Comparing the Areas under Two or More Correlated Receiver Operating
    Characteristic Curves.
    """
    of_odd, odd, of_normal, normal, whole = means
    total = (of_odd / odd if odd else whole) + (of_normal / normal if normal else whole)
    return float(total - whole)


class ScoreThreshold(Struct, frozen=True):
    """A version's threshold, above which a sample is an anomaly. false_alarm_rate: that it is for.
    threshold_samples: the normal samples that it comes from.

    The names are those of a version's provenance, which its file's metadata holds, too.
    """

    threshold: float
    false_alarm_rate: float
    threshold_samples: int

    @classmethod
    def of_file(cls, metadata: Mapping[str, str]) -> ScoreThreshold | None:
        """None for a file without a threshold, such as one that no job made."""
        values = [metadata.get(name) for name in cls.__struct_fields__]
        threshold, rate, samples = (None if value is None else float(value) for value in values)
        if threshold is None or rate is None or samples is None:
            return None
        return cls(threshold, rate, int(samples))


class AnomalyMetrics(PassMetrics):
    """auroc: None without both kinds of samples. Of an exported model with a threshold that one;
    false_alarm_rate, the share of normal samples above it; and detection_rate, of anomalous ones.
    Keeps all scores.
    """

    def __init__(self) -> None:
        self._scores = [np.empty(0)]
        self._odd = [np.empty(0, bool)]
        self._threshold: float | None = None

    def read(self, metadata: Mapping[str, str]) -> None:
        calibrated = ScoreThreshold.of_file(metadata)
        self._threshold = None if calibrated is None else calibrated.threshold

    def weights(self, target: Array) -> PerSample:
        """Normal samples alone."""
        return (~is_anomalous(target)).astype(np.float64)

    def update(self, output: Array, target: Array) -> None:
        self._scores.append(scores(output, target))
        self._odd.append(is_anomalous(target))

    def result(self) -> dict[str, Any]:
        scores, odd = np.concatenate(self._scores), np.concatenate(self._odd)
        both = bool(odd.any() and not odd.all())
        result: dict[str, Any] = {AUROC: area(placed(scores, odd).mean(axis=0)) if both else None}
        if self._threshold is not None:
            above = scores > self._threshold
            result["threshold"] = self._threshold
            result["false_alarm_rate"] = _share(above[~odd])
            result["detection_rate"] = _share(above[odd])
        return result


def _share(which: NDArray[np.bool_]) -> float | None:
    return float(which.mean()) if len(which) else None


class Reconstruction(LearningTask):
    """Labels are 0 for normal samples and 1 for anomalous ones, which are not trained on."""

    name = "reconstruction"
    title = "reconstruction: anomalies, by a model that gives its input back"
    metrics = (Metric(AUROC, placements, True, area, of_set=True), Metric("loss", scores))
    options = frozenset({"false_alarm_rate"})
    takes_class_names = compares_inputs = tells_scores = has_doubt = True
    trains_on = NORMAL

    def targets(self, labels: Array, inputs: Sequence[Array]) -> Array:
        numbers: NDArray[Any] = columns(inputs[0])
        dtype = numbers.dtype if numbers.dtype.kind == "f" else np.float32
        return np.concatenate([labels[:, None], numbers], axis=1, dtype=dtype, casting="unsafe")

    def metric_on(
        self, count: Callable[[], Sequence[int]], name: str, target: TargetSpec
    ) -> Metric:
        """The loss in place of the area, where either kind of sample is missing."""
        return self.metric(name if all(count()) else "loss", target)

    def compare(self, loss: Loss, inputs: LossInputs) -> LossAndGradient:
        """The squared error of each number, of normal samples."""
        assert inputs.target is not None
        output, target = inputs.output, inputs.target
        error = self.error(output, target)
        normal = (1 - target.slice([0], [1], [1])).reshape(-1, *[1] * (output.rank - 1))
        scale = inputs.scale.per_number(output, output.axes(None)[1:]) * normal
        return LossAndGradient(total(error * error, scale), (error * 2 * scale).known_like(output))

    def error(self, output: Tensor, target: Tensor) -> Tensor:
        """Write the difference whose square is the loss."""
        return output - target.slice([1], [END], [1]).reshape_like(output)

    def target_shape(self, loss: Loss, output: Shape) -> Shape:
        return (output[0], "numbers")

    def weight(self, loss: Loss, target: Array) -> float:
        return float((~is_anomalous(target)).sum())

    def target_spec(self, output: Sequence[int], classes: tuple[str, ...] | None) -> TargetSpec:
        if classes is not None and len(set(classes)) != len(NAMES):
            detail = "name two classes, the normal and the anomalous one, or none"
            raise refuse("/spec/classes", detail)
        return TargetSpec("labels", "int64", (), len(NAMES), classes or NAMES)

    def check_inputs(self, inputs: Sequence[Row], output: Row) -> None:
        if not output or list(inputs) != [output]:
            shapes = ", ".join(str(list(shape)) for shape in inputs)
            raise refuse(
                "/spec/loss",
                f"{self.name} compares the output with the only input, and their rows have the "
                f"shapes {list(output)} and {shapes}; export a model that gives its input back",
            )

    def fed_target(self, target: TargetSpec, row: Sequence[int]) -> TargetSpec:
        return TargetSpec("target", "float32", (1 + int(np.prod(row)),))

    def pass_metrics(self, target: TargetSpec) -> PassMetrics:
        return AnomalyMetrics()

    def doubt(self, output: Array, target: Array) -> PerSample:
        """The score: what is unlike the normal samples is worth a look first."""
        return scores(output, target)


class OneClass(Reconstruction):
    """The output is the distance from a prototype, which the model itself takes off.

    Source: Ruff et al. (2018), Deep One-Class Classification, equation 4.
    """

    name = "one_class"
    title = "one class: anomalies, by the distance from a prototype"
    compares_inputs = False

    def error(self, output: Tensor, target: Tensor) -> Tensor:
        return output

    def target_shape(self, loss: Loss, output: Shape) -> Shape:
        return (output[0], 1)

    def check_inputs(self, inputs: Sequence[Row], output: Row) -> None:
        """Any inputs have an embedding."""

    def fed_target(self, target: TargetSpec, row: Sequence[int]) -> TargetSpec:
        return TargetSpec("target", "float32", (1,))

    def fed(self, target: Array, shape: Sequence[int]) -> Array:
        return columns(target).astype(np.float32)


def scored(scores: NDArray[Any], threshold: float | None) -> dict[str, Array]:
    """The fields of an answer. scores: (n,). threshold: of the version, if it has one."""
    if threshold is None:
        nothing = np.full(len(scores), None)
        return {"anomaly": nothing, "threshold": nothing, "score": scores}
    thresholds = np.full(len(scores), threshold)
    return {"anomaly": scores > thresholds, "threshold": thresholds, "score": scores}
