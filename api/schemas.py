"""Every JSON body of the contract."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from storage.records import Loss, Optimizer, Role, VariantName, WhenFull

T = TypeVar("T")

State = Literal["queued", "running", "paused", "succeeded", "failed", "cancelled"]


class Request(BaseModel):
    """A body that apps send: unknown fields are refused, since they are mistyped ones."""

    model_config = ConfigDict(extra="forbid")


class Page(BaseModel, Generic[T]):
    """One page of a list. next: the cursor of the following page, null on the last."""

    items: list[T]
    next: str | None


class FaultBody(BaseModel):
    """One place that is wrong (RFC 6901 JSON pointer), and what would be right."""

    pointer: str
    detail: str


class ProblemBody(BaseModel):
    """RFC 9457 problem document."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    errors: list[FaultBody] | None = None


class Health(BaseModel):
    """The daemon is alive, or ready."""

    status: Literal["ok"]
    version: str


class JobHyperparameters(Request):
    """How long and how a job trains. The first of epochs, max_steps, max_seconds ends it."""

    epochs: int | None = Field(None, ge=1, le=1_000_000)
    max_steps: int | None = Field(None, ge=1, le=1_000_000_000)
    max_seconds: float | None = Field(None, gt=0, le=31_536_000, allow_inf_nan=False)
    batch_size: int | None = Field(None, ge=1, le=65_536)
    learning_rate: float | None = Field(None, gt=0, le=100, allow_inf_nan=False)
    schedule: Literal["constant", "linear", "cosine"] | None = None
    warmup_steps: int | None = Field(None, ge=0, le=1_000_000_000)
    accumulation_steps: int | None = Field(None, ge=1, le=65_536)
    early_stopping_patience: int | None = Field(None, ge=1, le=1_000_000)
    seed: int | None = Field(None, ge=0, lt=2**31)


class ModelHyperparameters(JobHyperparameters):
    """Defaults of a model's jobs, and what is built into its artifacts."""

    weight_decay: float | None = Field(None, ge=0, le=10, allow_inf_nan=False)
    max_grad_norm: float | None = Field(None, gt=0, allow_inf_nan=False)
    feature_dtype: Literal["float32", "float16"] | None = None


Text = Annotated[str, StringConstraints(min_length=1, max_length=256)]


def _listed(value: Any) -> Any:
    return [value] if isinstance(value, str | dict) else value


class GateSettings(Request):
    """When a job's version becomes `latest`; docs/promotion.md has the rules.

    metric: accuracy or loss for classes, mae or loss for numbers. margin: a drop by more than this
    counts as worse even within chance; a share of 1 for accuracy, of the old value else.
    """

    mode: Literal["always", "if_not_worse", "manual"] | None = None
    metric: Literal["accuracy", "loss", "mae"] | None = None
    margin: float | None = Field(None, ge=0, le=1_000_000, allow_inf_nan=False)
    min_validation_samples: int | None = Field(None, ge=0, le=1_000_000_000)
    min_per_class: int | None = Field(None, ge=0, le=1_000_000_000)


class RetentionSettings(Request):
    """How many versions stay, beside the first, the newest and those with an alias.

    null is no limit. max_bytes: of the files of all versions together.
    """

    max_versions: int | None = Field(20, ge=0, le=1_000_000)
    max_age_days: float | None = Field(None, gt=0, le=36_500, allow_inf_nan=False)
    max_bytes: int | None = Field(None, ge=0, lt=2**63)


class ModelSpecBody(Request):
    """What an author says of a model at registration; only name and loss are required.

    trainable: glob patterns over initializer names, "last:N" for the last N layers, "head" for the
    last; one may stand alone; default: every float weight. output: the tensor that the loss takes;
    default: the graph's only output.
    """

    name: str
    loss: Loss
    optimizer: Optimizer = "adamw"
    output: Text | None = None
    trainable: Annotated[list[Text] | None, BeforeValidator(_listed)] = Field(
        None, min_length=1, max_length=10_000
    )
    classes: list[Text] | None = Field(None, min_length=1, max_length=1_000_000)
    hyperparameters: ModelHyperparameters = ModelHyperparameters()
    gate: GateSettings = GateSettings()
    retention: RetentionSettings = RetentionSettings()
    preprocess: Annotated[list[dict[str, Any]], BeforeValidator(_listed)] = Field(
        [], max_length=1000, description="From what apps send to tensors; see docs/samples.md."
    )


class QuotaSettings(Request):
    """Most samples and bytes of a model, null for no limit, and which go first when it is full."""

    max_samples: int | None = Field(None, ge=1, lt=2**53)
    max_bytes: int | None = Field(None, ge=1, lt=2**53)
    when_full: WhenFull = "oldest"


class ModelPatch(Request):
    """What may change after registration. hyperparameters: merged; null takes a default away."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"hyperparameters": {"epochs": 10}}]})

    hyperparameters: JobHyperparameters | None = None
    classes: list[Text] | None = None
    gate: GateSettings | None = None
    retention: RetentionSettings | None = None
    quota: QuotaSettings | None = None


class InputBody(BaseModel):
    """One input. shape: of one sample, without the batch axis."""

    name: str
    dtype: str
    shape: list[int]


class TargetBody(InputBody):
    """What a label is. num_classes: class indices run from 0 to num_classes - 1."""

    num_classes: int | None
    classes: list[str] | None


class ParameterCounts(BaseModel):
    """Scalars that train and that do not; names of the initializers that train."""

    trainable: int
    frozen: int
    names: list[str]


class SampleCountsBody(BaseModel):
    """Labelled samples by split, and those that wait for their label."""

    train: int
    validation: int
    unlabelled: int


class GateBody(BaseModel):
    """When a job's version becomes `latest`."""

    mode: Literal["always", "if_not_worse", "manual"]
    metric: Literal["accuracy", "loss", "mae"]
    margin: float
    min_validation_samples: int
    min_per_class: int


class ModelBody(BaseModel):
    """A registered model. notes: what was changed in the graph so that it trains.

    preprocess: how samples become what it takes, complete enough for an app to do the same.
    """

    name: str
    created_at: datetime
    inputs: list[InputBody]
    target: TargetBody
    loss: Loss
    optimizer: Optimizer
    output: str
    parameters: ParameterCounts
    hyperparameters: dict[str, Any]
    samples: SampleCountsBody
    latest_version: int | None
    gate: GateBody
    retention: RetentionSettings
    held_since: datetime | None
    notes: list[str]
    preprocess: list[dict[str, Any]]
    quota: QuotaSettings


Priority = Annotated[
    int, Field(ge=-100, le=100, description="Of two jobs that wait the higher goes first.")
]


class JobRequest(JobHyperparameters):
    """A job asked for by hand; every field has a default."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"epochs": 5, "batch_size": 64}]})

    from_: Annotated[
        Literal["latest", "base"] | int, Field(alias="from", description="Where to begin.")
    ] = "latest"
    ignore_policy: bool = Field(
        False, description="Run now in spite of the policy; a pause and a snooze hold it still."
    )
    priority: Priority = 0


class BlockerBody(BaseModel):
    """One condition that keeps a job waiting."""

    condition: str
    detail: str


class ProgressBody(BaseModel):
    """How far a job is. total_steps and eta_seconds are null when time ends the job."""

    step: int = 0
    total_steps: int | None = None
    epoch: int = 0
    epochs: int | None = None
    samples_per_second: float | None = None
    eta_seconds: float | None = None


class MetricsBody(BaseModel):
    """train_loss: mean of the last epoch. baseline: validation before the first step."""

    train_loss: float | None = None
    validation: dict[str, Any] | None = None
    baseline: dict[str, Any] | None = None
    ended: str | None = None


class JobErrorBody(BaseModel):
    """Why a job failed."""

    code: str
    detail: str


class JobBody(BaseModel):
    """One training run of one model."""

    id: int
    model: str
    state: State
    blocked_by: list[BlockerBody]
    trigger: str
    priority: int
    ignore_policy: bool
    hyperparameters: dict[str, Any]
    watermark: int
    progress: ProgressBody
    metrics: MetricsBody
    version: int | None
    restarts: int
    error: JobErrorBody | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class MetricPointBody(BaseModel):
    """Values by name at a step: train_loss, learning_rate, validation_loss, …"""

    step: int
    epoch: int
    values: dict[str, float]


class CheckpointBody(BaseModel):
    """Training state of a job after `step`."""

    id: int
    model: str
    job_id: int
    role: Role
    step: int
    epoch: int
    sha256: str
    size_bytes: int
    pinned: bool
    note: str
    created_at: datetime


class CheckpointPatch(Request):
    """pinned: kept until deleted by hand. note: for people."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"pinned": True}]})

    pinned: bool | None = None
    note: str | None = Field(None, max_length=1000)


class AliasBody(BaseModel):
    """A movable name of a version."""

    alias: str
    version: int


class AliasTarget(Request):
    """Where an alias is to point."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"version": 2}]})

    version: int = Field(ge=1, lt=2**63)


class ReferenceBody(BaseModel):
    """The reference set. samples: those that still count. frozen_at: null without one."""

    samples: int
    frozen_at: datetime | None


class VariantBody(BaseModel):
    """Another form of a version's model. sha256, size_bytes: null if it was refused.

    metrics: on the samples on which `reason` compares it with the version's own model.
    """

    variant: VariantName
    sha256: str | None
    size_bytes: int | None
    method: str
    metrics: dict[str, Any]
    verdict: dict[str, Any]
    reason: str
    created_at: datetime


class VersionBody(BaseModel):
    """An exported inference model, immutable. baseline: what `latest` reached on the same samples.

    promoted, reason, verdict: what the gate decided when it was made; `aliases` says what has
    become of it. provenance: where it comes from; the model's metadata_props hold the same.
    """

    model: str
    version: int
    sha256: str
    size_bytes: int
    created_at: datetime
    job_id: int | None
    metrics: dict[str, Any]
    baseline: dict[str, Any]
    aliases: list[str]
    promoted: bool
    reason: str
    verdict: dict[str, Any]
    provenance: dict[str, Any]
    variants: list[VariantBody]


class PredictionBody(BaseModel):
    """One instance. outputs: each output of the model by name.

    A model with classes: the likeliest `label`, its `probability`, and all `probabilities` by class
    index. Binary cross entropy: `probabilities`. Else: `values`. What JSON cannot say is null.
    """

    label: Any = None
    probability: float | None = None
    probabilities: list[Any] | None = None
    values: list[Any] | None = None
    outputs: dict[str, Any]


class PredictionsBody(BaseModel):
    """What the version says, in the order of the instances. ids: of the kept samples."""

    model: str
    version: int
    classes: list[str] | None
    predictions: list[PredictionBody]
    ids: list[int] | None = None
