"""Bodies of models: registration, settings, the model itself."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Discriminator, Field, Tag
from pydantic_core import PydanticCustomError

from api.schemas.base import Body, Name, Request, Text, shows
from api.schemas.federation import ConsentBody, FederationSettings
from api.schemas.jobs import JobHyperparameters
from service.models.classes import ModelClass
from service.training.tasks import LossName, MetricName
from storage.records.models import (
    BatchNorm,
    Model,
    OptimizerName,
    SampleCounts,
    WhenFull,
)
from storage.records.signatures import TargetSpec, TensorSpec


class ModelHyperparameters(JobHyperparameters):
    """Defaults of a model's jobs, and the type in which features are kept."""

    feature_dtype: Literal["float32", "float16"] | None = None


def listed(value: Any) -> Any:
    return [value] if isinstance(value, str | dict) else value


ClassLabel = Text | Annotated[int, Field(ge=0, le=1_000_000)] | None
"""The name of a class or of a number, or its index."""


class GuardSettings(Request):
    """A bound that a candidate must keep on the validation samples, whatever `latest` does.

    metric: one of the model's loss, or a figure of each class such as recall, which needs a
    label: the name of a class or of a number, or its index. at_least: of what is better the more of
    it there is; at_most: of errors.
    """

    metric: Text
    label: ClassLabel = None
    at_least: float | None = Field(None, ge=0, le=1, allow_inf_nan=False)
    at_most: float | None = Field(None, ge=0, allow_inf_nan=False)


class GateSettings(Request):
    """When a job's version becomes `latest`; docs/promotion.md has the rules.

    metric: one of those of the model's loss; label: the class that it is of, if it is a figure of
    each, by name or index. margin: a drop by more than this counts as worse even
    within chance; a share of 1 for accuracy, F1 and recall, of the old value else. base_set:
    whether the base set counts too, where a drop of up to base_margin is allowed. hold_on_drift:
    whether inputs that have drifted keep a version back. guard: bounds that it must keep as well.
    """

    mode: Literal["always", "if_not_worse", "manual"] | None = None
    metric: MetricName | None = None
    label: ClassLabel = None
    margin: float | None = Field(None, ge=0, le=1_000_000, allow_inf_nan=False)
    min_validation_samples: int | None = Field(None, ge=0, le=1_000_000_000)
    min_per_class: int | None = Field(None, ge=0, le=1_000_000_000)
    base_set: bool | None = None
    base_margin: float | None = Field(None, ge=0, le=1_000_000, allow_inf_nan=False)
    hold_on_drift: bool | None = None
    guard: list[GuardSettings] | None = Field(None, max_length=100)


class RetentionSettings(Request):
    """How many versions stay, beside the first, the newest and those with an alias.

    null is no limit. max_bytes: of the files of all versions together.
    """

    max_versions: int | None = Field(20, ge=0, le=1_000_000)
    max_age_days: float | None = Field(None, gt=0, le=36_500, allow_inf_nan=False)
    max_bytes: int | None = Field(None, ge=0, lt=2**63)


class LossOutput(Request):
    """A loss that the model computes itself.

    output: the tensor's name; one number, or one for each sample. The input that only it reads is
    the label.
    """

    output: Text


Duplicates = Literal["merge", "keep"]
"""Whether samples with equal inputs are one sample of a model."""


def _fits_a_path(name: str) -> str:
    """Refuse names with which no request can name the class: URLs drop them."""
    if name in (".", ".."):
        raise PydanticCustomError("class_name", "a class name is not '.' or '..'")
    return name


ClassName = Annotated[Name, AfterValidator(_fits_a_path)]
Features = Annotated[list[Text] | None, Field(min_length=1, max_length=1_000_000)]


class LoraSettings(Request):
    """Small matrices A and B beside frozen weights: y + (alpha/rank)·(x A) B trains (LoRA).

    targets: globs over names of weights of MatMul, Gemm and 1x1 Conv, and of these nodes.
    """

    rank: int = Field(8, ge=1, le=65_536)
    alpha: float = Field(16.0, gt=0, le=1_000_000, allow_inf_nan=False)
    targets: Annotated[list[Text], BeforeValidator(listed)] = Field(
        ["*"], min_length=1, max_length=10_000
    )


class Adapters(Request):
    """What trains beside a frozen model, which may be of float32, float16, int8 or int4."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"lora": {"rank": 8, "alpha": 16, "targets": ["*attn*"]}}]}
    )

    lora: LoraSettings


def _what_trains(value: Any) -> str:
    return "pattern" if isinstance(value, str) else "adapters"


Trainable = Annotated[
    Annotated[Text, Tag("pattern")] | Annotated[Adapters, Tag("adapters")],
    Discriminator(_what_trains),
]
"""One thing that trains; the discriminator lets a fault name one place."""


class ModelSpecBody(Request):
    """The description of a model at registration; only name and loss are required.

    optimizer: default: adamw, of artifacts the one that they hold.
    trainable: glob patterns over initializer names, "last:N" for the last N layers, "head" for the
    last, or adapters, once; one may stand alone; default: every float weight. classes: names, of
    classes or of the numbers of a label. loss: a name, or a
    tensor that the model itself computes. output: the tensor that the loss takes, and that apps
    get; default: the graph's only output beside its loss. duplicates: `keep` stores samples with
    equal inputs, for sensors that repeat themselves. features: names of CSV columns, in the order
    of the inputs; default: those of the first CSV. batch_norm: by `inference` every
    BatchNormalization keeps the statistics that it came with, by `training` it uses those of each
    batch and moves them.
    """

    name: str
    loss: LossName | LossOutput
    optimizer: OptimizerName | None = None
    output: Text | None = None
    trainable: Annotated[list[Trainable] | None, BeforeValidator(listed)] = Field(
        None, min_length=1, max_length=10_000
    )
    classes: list[ClassName] | None = Field(None, min_length=1, max_length=1_000_000)
    hyperparameters: ModelHyperparameters = ModelHyperparameters()
    gate: GateSettings = GateSettings()
    retention: RetentionSettings = RetentionSettings()
    preprocess: Annotated[list[dict[str, Any]], BeforeValidator(listed)] = Field(
        [],
        max_length=1000,
        description="How uploads become tensors, and how training samples are augmented; see "
        "docs/preprocessing.md.",
    )
    duplicates: Duplicates = "merge"
    features: Features = None
    batch_norm: BatchNorm = "inference"


class QuotaSettings(Request):
    """Limits on a model's samples and bytes (null: none), and which samples are evicted first."""

    max_samples: int | None = Field(None, ge=1, lt=2**53)
    max_bytes: int | None = Field(None, ge=1, lt=2**53)
    when_full: WhenFull = "oldest"


class ModelPatch(Request):
    """What can be changed after registration. hyperparameters: merged; null removes a default.

    features: null forgets them, and the next CSV names them. federation: consent to federated
    training, merged. preprocess: all descriptions; once there are samples or trained versions, only
    their `augment` and `leave_out` may differ.
    """

    model_config = ConfigDict(json_schema_extra={"examples": [{"hyperparameters": {"epochs": 10}}]})

    hyperparameters: JobHyperparameters | None = None
    classes: list[ClassName] | None = None
    gate: GateSettings | None = None
    retention: RetentionSettings | None = None
    quota: QuotaSettings | None = None
    duplicates: Duplicates | None = None
    features: Features = None
    federation: FederationSettings | None = None
    preprocess: Annotated[list[dict[str, Any]] | None, BeforeValidator(listed)] = Field(
        None, max_length=1000
    )


class ClassNamed(Request):
    """A class's name."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"name": "otter"}]})

    name: ClassName


class ClassMerge(Request):
    """The class that takes over the samples."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"into": "dog"}]})

    into: Text


@shows(ModelClass)
class ClassBody(Body):
    """A class as it is now. train, validation: its samples. index: in labels and outputs.

    in_latest: whether the version that `latest` names tells it apart.
    """


@shows(TensorSpec)
class InputBody(Body):
    """One input. shape: of one sample, without the batch axis."""


@shows(TargetSpec, without=("class_ids", "classes_made", "may_ignore"))
class TargetBody(InputBody):
    """What a label is. num_classes: class indices run from 0 to num_classes - 1.

    span_types: of the spans of a text, if these are its label. box_classes: how many classes the
    boxes of a photo have, if these are; at most shape[0]. Else a shape that holds 0: the loss takes
    no label.
    """


class ParameterCounts(Body):
    """Numbers of trainable and frozen values; names of the initializers that train."""

    trainable: int
    frozen: int
    names: list[str]


@shows(SampleCounts)
class SampleCountsBody(Body):
    """Labelled samples by split, and unlabelled samples. base: those of the base set."""


class GateBody(Body):
    """When a job's version becomes `latest`."""

    mode: Literal["always", "if_not_worse", "manual"]
    metric: MetricName
    label: ClassLabel
    margin: float
    min_validation_samples: int
    min_per_class: int
    base_set: bool
    base_margin: float
    hold_on_drift: bool
    guard: list[GuardSettings]


@shows(
    Model,
    without=(
        *("id", "signature", "loss_output", "trainable", "trainable_parameters", "files"),
        *("frozen_parameters", "shapes", "reference_frozen_at", "base_set_at", "keeps_duplicates"),
    ),
    created_at=datetime,
    inputs=list[InputBody],
    target=TargetBody,
    loss=LossName | LossOutput,
    output=str,
    parameters=ParameterCounts,
    samples=SampleCountsBody,
    gate=GateBody,
    retention=RetentionSettings,
    quota=QuotaSettings,
    duplicates=Duplicates,
    federation=ConsentBody,
)
class ModelBody(Body):
    """A registered model. notes: what was changed in the graph so that it trains.

    engine: what trains it, docs/engines.md.
    preprocess: how samples become what it takes, complete enough for an app to do the same; its
    `augment` concerns training alone.
    features: names of CSV columns, in the order of the inputs; null until a CSV has named them.
    """
