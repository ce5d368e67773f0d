"""Messages of tasks that measure, compare, convert and rank."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from service.training.protocol.messages.shared import Measurement, ResourceLimits
from service.training.protocol.serialization import Line, Serialized
from storage.records.versions import VariantName

Ranks = Literal["unlabelled", "labels"]
"""Unlabelled samples by a version's uncertainty, or labelled ones by its doubt about the label."""


SimpleName = Literal["mean_label", "last_value"]
"""Predictions without a model: the mean of the training labels, or the last value of a window."""


class Evaluate(Line, frozen=True):
    """Compare two inference models on the current labelled validation samples.

    baseline_classes: ids of the classes that the baseline knows, by index; None for those of the
    signature. Samples of others are left out. seen_up_to: the watermark of the baseline's job, for
    detecting drift; None to skip that. baseline_measurement: how the baseline is measured, if it
    descends from another base; None if as the candidate is.
    """

    candidate: str
    baseline: str
    measurement: Measurement
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    baseline_classes: tuple[int, ...] | None = None
    baseline_measurement: Measurement | None = None
    seen_up_to: int | None = None


class Compare(Line, frozen=True):
    """Measure two versions on the current labelled validation samples, sample by sample.

    candidate, baseline: their inference models. candidate_classes, baseline_classes: ids of those
    that each knows, and baseline_measurement, as in Evaluate. most: maximum number of samples
    listed for each side.
    """

    candidate: str
    baseline: str
    measurement: Measurement
    most: int
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    candidate_classes: tuple[int, ...] | None = None
    baseline_classes: tuple[int, ...] | None = None
    baseline_measurement: Measurement | None = None


class AdaptedFiles(Serialized, frozen=True):
    """A model that trains adapters. checkpoint: its values when training starts. trained: those of
    the version, None for version 1.
    """

    manifest: str
    inference_model: str
    checkpoint: str
    trained: str | None = None


class Convert(Line, frozen=True):
    """Make another form of an inference model, and compare it with the original.

    classes: ids of those that it knows, as in Evaluate. adapted: for a form with adapters separate
    from their base.
    """

    source: str
    variant: VariantName
    work_dir: str
    measurement: Measurement
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    classes: tuple[int, ...] | None = None
    adapted: AdaptedFiles | None = None


class Rank(Line, frozen=True):
    """Measure how uncertain an inference model is about each of the newest samples.

    classes: ids of those that it knows, as in Evaluate.
    """

    model: str
    measurement: Measurement
    newest: int
    what: Ranks = "unlabelled"
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    classes: tuple[int, ...] | None = None


class Drift(Line, frozen=True):
    """Compare the newest samples with those that a version was trained on. model: its file.

    watermark: of its job.
    """

    model: str
    measurement: Measurement
    watermark: int
    limits: ResourceLimits = field(default_factory=ResourceLimits)


class Interval(Serialized, frozen=True):
    """A paired bootstrap of the metric's difference, candidate minus baseline.

    low, high: 95 % percentile interval. p_value: two-sided.
    """

    difference: float
    low: float
    high: float
    p_value: float


class SimpleComparison(Serialized, frozen=True):
    """A candidate beside a prediction without a model. figure: that one's, by the gate's metric."""

    name: SimpleName
    figure: float
    interval: Interval | None


class Comparison(Serialized, frozen=True):
    """Two models on the same samples.

    candidate, baseline: their metrics, empty without samples; baseline is None if that model cannot
    be run, and fault says why. class_counts: samples by class index, empty without classes.
    discordant: how often only the baseline was right, and only the candidate, if each sample is
    either right or wrong. interval: if not. left_out: further samples, of classes that the baseline
    does not know; class_counts includes them. ignored: the class whose labels do not count.
    simple: for models of numbers, if wanted. metric: what was compared, None for the gate's.
    """

    samples: int
    class_counts: tuple[int, ...]
    candidate: dict[str, Any]
    baseline: dict[str, Any] | None
    fault: str | None = None
    discordant: tuple[int, int] | None = None
    interval: Interval | None = None
    left_out: int = 0
    ignored: int | None = None
    simple: tuple[SimpleComparison, ...] = ()
    metric: str | None = None


class FeatureDrift(Serialized, frozen=True):
    """A feature of an input. psi: its population stability index; it has drifted above limit.

    figure: the summary of each sample that was compared, None for a number of the input itself.
    """

    input: str
    feature: int
    figure: str | None
    psi: float
    limit: float
    training_mean: float
    recent_mean: float


class Drifted(Line, frozen=True):
    """The drift of recent inputs from those of training. features: those that drifted most.

    compared: number of features compared, 0 with too few samples. drifted: number that have.
    """

    training_samples: int
    recent_samples: int
    features: tuple[FeatureDrift, ...]
    compared: int = 0
    drifted: int = 0


class Evaluated(Line, frozen=True):
    """The models are compared. reference, base_set, drift: None if not requested."""

    validation: Comparison
    reference: Comparison | None = None
    base_set: Comparison | None = None
    drift: Drifted | None = None


class ChangedSample(Serialized, frozen=True):
    """A sample on which the versions differ.

    label, before, after: a class index, or the first numbers of a row; None if neither is known.
    before_error, after_error: see Compared.
    """

    id: int
    label: Any
    before: Any
    after: Any
    before_error: float | None
    after_error: float | None


class Compared(Line, frozen=True):
    """Both versions on the same samples. before, after: their metrics, empty without samples.

    by: how samples were compared. `class`: right or wrong, with the loss as error. `share`: by the
    share that is wrong. `absolute`: by mean absolute error. `loss`: by loss. worse, better: number
    of samples that became wrong and right by `class`, else whose error rose and fell. The samples
    with the largest change come first. left_out: further samples, of classes that one version does
    not know.
    """

    samples: int
    left_out: int
    by: Literal["class", "share", "absolute", "loss"]
    before: dict[str, Any]
    after: dict[str, Any]
    worse: int
    better: int
    worse_samples: tuple[ChangedSample, ...]
    better_samples: tuple[ChangedSample, ...]


class Converted(Line, frozen=True):
    """The variant is at path. method: how it was made. The candidate is the variant."""

    path: str
    method: str
    validation: Comparison
    reference: Comparison | None = None
    base_set: Comparison | None = None


class Ranked(Line, frozen=True):
    """The model's uncertainty about the samples with these ids.

    doubts: for unlabelled ones, the entropy in nats; for labelled ones, 1 minus the probability of
    the label. labels, predicted: classes of labelled ones.
    """

    ids: tuple[int, ...]
    doubts: tuple[float, ...]
    labels: tuple[int, ...] = ()
    predicted: tuple[int, ...] = ()
