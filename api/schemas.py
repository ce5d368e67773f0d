"""Every JSON body of the contract."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from storage.records import Loss, Optimizer, Role

T = TypeVar("T")

SplitName = Literal["train", "validation"]
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
    """Defaults of a model's jobs, and what is built into its optimizer."""

    weight_decay: float | None = Field(None, ge=0, le=10, allow_inf_nan=False)
    max_grad_norm: float | None = Field(None, gt=0, allow_inf_nan=False)


Text = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class ModelSpecBody(Request):
    """What an author says of a model at registration; only name and loss are required.

    trainable: glob patterns over initializer names; default: every float weight. output: the
    tensor that the loss takes; default: the graph's only output.
    """

    name: str
    loss: Loss
    optimizer: Optimizer = "adamw"
    output: Text | None = None
    trainable: list[Text] | None = Field(None, min_length=1, max_length=10_000)
    classes: list[Text] | None = Field(None, min_length=1, max_length=1_000_000)
    hyperparameters: ModelHyperparameters = ModelHyperparameters()


class ModelPatch(Request):
    """What may change after registration. hyperparameters: merged; null takes a default away."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"hyperparameters": {"epochs": 10}}]})

    hyperparameters: JobHyperparameters | None = None
    classes: list[Text] | None = None


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


class ModelBody(BaseModel):
    """A registered model. notes: what was changed in the graph so that it trains."""

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
    notes: list[str]


class SamplesAccepted(BaseModel):
    """What became of an upload. ids: first and last accepted, null if none was.

    rejected, errors: with ?on_error=skip, the bad samples that were left out.
    """

    accepted: int
    duplicates: int
    ids: tuple[int, int] | None
    rejected: int = 0
    errors: list[FaultBody] = []


class SampleBody(BaseModel):
    """A stored sample, without its tensors."""

    id: int
    key: str | None
    split: SplitName
    label: Any
    sha256: str
    size_bytes: int
    created_at: datetime


class SamplePatch(Request):
    """label: null takes it away. A field that is absent stays."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"label": 3}]})

    label: Any = None
    split: SplitName | None = None


class LabelCount(BaseModel):
    """Samples of one split and label; label is null for unlabelled ones."""

    split: SplitName
    label: int | None
    name: str | None
    count: int


class SampleStats(SampleCountsBody):
    """Counts by split, and by class for a model with classes."""

    labels: list[LabelCount]


class JobRequest(JobHyperparameters):
    """A job asked for by hand; every field has a default."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"epochs": 5, "batch_size": 64}]})

    from_: Annotated[
        Literal["latest", "base"] | int, Field(alias="from", description="Where to begin.")
    ] = "latest"
    ignore_policy: bool = False


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


class VersionBody(BaseModel):
    """An exported inference model, immutable. baseline: validation of what it started from."""

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
