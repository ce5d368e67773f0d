"""Messages of tasks that measure, compare, convert and rank."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from service.training.protocol.messages.shared import ResourceLimits
from storage.records.signatures import Signature
from storage.records.versions import VariantName

Ranks = Literal["unlabelled", "labels"]
"""Unlabelled samples by how unsure a version is, or labelled ones by how far it is from them."""


@dataclass(frozen=True, slots=True)
class OwnLoss:
    """The artifacts that compute a loss of the model's own: paths."""

    manifest: str
    eval_model: str
    checkpoint: str


@dataclass(frozen=True, slots=True)
class Measurement:
    """What models are measured on and by. metric: `accuracy`, `loss` or `mae`.

    reference, base_set: whether to compare on these sets as well. preprocess, cache: as
    in Train. own_loss: where loss is `output`.
    """

    signature: Signature
    loss: str
    output: str
    database: str
    packs: str
    model_id: int
    metric: str
    reference: bool = False
    base_set: bool = False
    preprocess: tuple[dict[str, Any], ...] = ()
    cache: str | None = None
    own_loss: OwnLoss | None = None


@dataclass(frozen=True, slots=True)
class Evaluate:
    """Compare two inference models on the labelled validation samples as they are now.

    baseline_classes: ids of the classes that the baseline tells apart, by index; None for those of
    the signature. Samples of others are left out. seen_up_to: the watermark of the baseline's job,
    to tell drift from; None not to look.
    """

    candidate: str
    baseline: str
    measurement: Measurement
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    baseline_classes: tuple[int, ...] | None = None
    seen_up_to: int | None = None
    kind: Literal["evaluate"] = "evaluate"


@dataclass(frozen=True, slots=True)
class AdaptedFiles:
    """A model that trains adapters. checkpoint: its values when training starts, trained: those of
    the version, None for the first.
    """

    manifest: str
    inference_model: str
    checkpoint: str
    trained: str | None = None


@dataclass(frozen=True, slots=True)
class Convert:
    """Make another form of an inference model, and compare it with the one that it is made of.

    classes: ids of those that it tells apart, as in Evaluate. adapted: for a form that has the
    adapters beside their base.
    """

    source: str
    variant: VariantName
    work_dir: str
    measurement: Measurement
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    classes: tuple[int, ...] | None = None
    adapted: AdaptedFiles | None = None
    kind: Literal["convert"] = "convert"


@dataclass(frozen=True, slots=True)
class Rank:
    """Tell how much an inference model doubts each of the newest samples.

    classes: ids of those that it tells apart, as in Evaluate.
    """

    model: str
    measurement: Measurement
    newest: int
    what: Ranks = "unlabelled"
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    classes: tuple[int, ...] | None = None
    kind: Literal["rank"] = "rank"


@dataclass(frozen=True, slots=True)
class Drift:
    """Compare the newest samples with those that a version was trained on. model: its file.

    watermark: of its job.
    """

    model: str
    measurement: Measurement
    watermark: int
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    kind: Literal["drift"] = "drift"


@dataclass(frozen=True, slots=True)
class Interval:
    """A paired bootstrap of the metric's difference, candidate less baseline.

    low, high: 95 % percentile interval. p_value: two-sided.
    """

    difference: float
    low: float
    high: float
    p_value: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two models on the same samples.

    candidate, baseline: their metrics, empty without samples; baseline is None where that model
    cannot be run, and fault says why. class_counts: samples by class index, empty without classes.
    discordant: how often only the baseline was right, and only the candidate, where each sample is
    right or wrong. interval: where it is not. left_out: further samples, of classes that the
    baseline does not know; class_counts has them too.
    """

    samples: int
    class_counts: tuple[int, ...]
    candidate: dict[str, Any]
    baseline: dict[str, Any] | None
    fault: str | None = None
    discordant: tuple[int, int] | None = None
    interval: Interval | None = None
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class FeatureDrift:
    """A feature of an input. psi: its population stability index; it has drifted above limit.

    figure: what of each sample was compared, None where it is a number of the input itself.
    """

    input: str
    feature: int
    figure: str | None
    psi: float
    limit: float
    training_mean: float
    recent_mean: float


@dataclass(frozen=True, slots=True)
class Drifted:
    """How far recent inputs are from those of training. features: those that drifted most.

    compared: how many features were, 0 with too few samples. drifted: how many have.
    """

    training_samples: int
    recent_samples: int
    features: tuple[FeatureDrift, ...]
    compared: int = 0
    drifted: int = 0
    kind: Literal["drifted"] = "drifted"


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The models are compared. reference, base_set, drift: None where it was not asked for."""

    validation: Comparison
    reference: Comparison | None = None
    base_set: Comparison | None = None
    drift: Drifted | None = None
    kind: Literal["evaluated"] = "evaluated"


@dataclass(frozen=True, slots=True)
class Converted:
    """The variant lies at path. method: how it was made. candidate is the variant."""

    path: str
    method: str
    validation: Comparison
    reference: Comparison | None = None
    base_set: Comparison | None = None
    kind: Literal["converted"] = "converted"


@dataclass(frozen=True, slots=True)
class Ranked:
    """What the model makes of the samples with these ids.

    doubts: entropies in nats of unlabelled ones; of labelled ones 1 less the probability of the
    label. labels, predicted: classes, of labelled ones.
    """

    ids: tuple[int, ...]
    doubts: tuple[float, ...]
    labels: tuple[int, ...] = ()
    predicted: tuple[int, ...] = ()
    kind: Literal["ranked"] = "ranked"
