"""Bodies of versions, aliases and predictions."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from pydantic import ConfigDict, Field

from api.schemas.base import Body, Request, shows
from service.training.protocol.messages.comparison import ChangedSample
from storage.records.versions import Variant, VariantName, Version


class AliasBody(Body):
    """A movable name of a version."""

    alias: str
    version: int


class AliasTarget(Request):
    """The version that an alias should name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"version": 2}]})

    version: int = Field(ge=1, lt=2**63)


class ReferenceBody(Body):
    """The reference set. samples: those that still count. frozen_at: null without one."""

    samples: int
    frozen_at: datetime | None


@shows(Variant, without=("name",), variant=VariantName)
class VariantBody(Body):
    """Another form of a version's model. sha256, size_bytes: null if it was refused.

    metrics: on the samples on which `reason` compares it with the version's own model.
    """


@shows(
    Version,
    without=("model_id", "checkpoint_id", "target"),
    provenance=dict[str, Any],
    classes=list[str] | None,
    variants=list[VariantBody],
)
class VersionBody(Body):
    """An exported inference model, immutable. baseline: what `latest` reached on the same samples.

    promoted, reason, verdict: what the gate decided when it was made; `aliases` says what has
    become of it. provenance: where it comes from; the model's metadata_props hold the same.
    classes: the names of the model's when it was made, null without names. size_bytes: of the file
    that apps fetch. stored_bytes: what the version takes on disk beside what it shares with others.
    """


@shows(ChangedSample)
class ChangedSampleBody(Body):
    """A validation sample of which two versions say something else.

    label, before, after: a class index, or the first eight numbers; null where a sample has no one
    answer. before_error, after_error: what `by` of the comparison names.
    """


class ChangedSamples(Body):
    """Samples that changed to the same side: how many, and those that changed most."""

    total: int
    items: list[ChangedSampleBody]


class ComparisonBody(Body):
    """Two versions on the same validation samples, as they are now. samples: how many were used.

    left_out: further ones, of classes that one version does not know. before, after: the metrics.
    classes: names, by the index that labels, metrics and confusion matrices have. by: what of a
    sample was compared. `class`: the prediction is right or wrong, and the error is the loss;
    `worse` became wrong, `better` became right. Else the error rose or fell: `share`, that of a
    sample which is wrong; `absolute`, the mean absolute error; `loss`, where there is no answer
    but that, as of a loss of the model's own.
    """

    model: str
    versions: list[int]
    samples: int
    left_out: int
    by: Literal["class", "share", "absolute", "loss"]
    classes: list[str] | None
    before: dict[str, Any]
    after: dict[str, Any]
    worse: ChangedSamples
    better: ChangedSamples


class LikeliestBody(Body):
    """Classes and their probabilities, the likeliest first."""

    label: list[Any]
    probability: list[Any]


class SpanBody(Body):
    """Characters (code points) of a text, from start to before end. score: a mean probability."""

    start: int
    end: int
    label: str
    score: float


class MaskBody(Body):
    """Where a mask has a class, in COCO's run lengths; 255 is what the model has not seen."""

    label: str | int
    size: tuple[int, int]
    counts: str


class BoxBody(Body):
    """x, y, width and height in the photo's own pixels. label: a class, by index if unnamed."""

    box: tuple[float, float, float, float]
    label: str | int
    probability: float


class PredictionBody(Body):
    """One instance; what JSON cannot say is null. docs/prediction.md.

    A model with classes: the likeliest `label`, its `probability`, and all `probabilities` by class
    index; with a class for each of several positions `label` alone. Binary cross entropy:
    `probabilities`. `supcon`: `embedding`. `reconstruction` and `one_class`: `score`, the version's
    `threshold`, null if it has none, and whether the score is above it, `anomaly`. Texts of
    `token_classification`: `spans`. Photos of `detection`: `boxes`. Else: `values`, by name if
    `classes` names a label's numbers. `?top=` replaces these by `top`; `?output=` replaces
    `probabilities`, `values` and `embedding` by `outputs`; `?masks=` replaces the `label` of a
    photo's pixels by `masks`.
    """

    label: Any = None
    probability: float | None = None
    probabilities: list[Any] | None = None
    embedding: list[Any] | None = None
    spans: list[SpanBody] | None = None
    score: float | None = None
    threshold: float | None = None
    anomaly: bool | None = None
    masks: list[MaskBody] | None = None
    boxes: list[BoxBody] | None = None
    values: list[Any] | dict[str, Any] | None = None
    top: LikeliestBody | None = None
    outputs: dict[str, Any] | None = None


class PredictionsBody(Body):
    """What the version says, in the order of the instances. ids: of the kept samples."""

    model: str
    version: int
    classes: list[str] | None
    ids: list[int] | None = None
    predictions: list[PredictionBody]
