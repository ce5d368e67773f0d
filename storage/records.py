"""Rows as they leave storage: frozen, typed, without a connection behind them."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Any, Literal

Loss = Literal["cross_entropy", "mse", "bce_with_logits", "l1"]
Optimizer = Literal["adamw", "sgd"]
Role = Literal["periodic", "best", "final"]
WhenFull = Literal["oldest", "reservoir", "balanced"]
VariantName = Literal["int8", "ort"]


class Split(str, Enum):
    """Which part of the samples a sample belongs to."""

    TRAIN = "train"
    VALIDATION = "validation"


class Unset(Enum):
    """The default of a parameter for which None means something."""

    UNSET = "unset"


UNSET = Unset.UNSET


class JobState(str, Enum):
    """Where a job stands."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSED = "paused"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


NEXT: dict[JobState, frozenset[JobState]] = {
    JobState.QUEUED: frozenset({JobState.RUNNING, JobState.CANCELLED}),
    JobState.RUNNING: frozenset(
        {JobState.PAUSED, JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED}
    ),
    JobState.PAUSED: frozenset({JobState.RUNNING, JobState.CANCELLED, JobState.FAILED}),
    JobState.SUCCEEDED: frozenset(),
    JobState.FAILED: frozenset(),
    JobState.CANCELLED: frozenset(),
}


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """One input of a model. shape: of one sample, without the batch axis."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TargetSpec:
    """What a label is.

    dtype: `int64` (class indices) or `float32`. shape: of one label, `()` for one class index.
    num_classes: for class indices, labels are in [0, num_classes). classes: their names, or None.
    """

    name: str
    dtype: str
    shape: tuple[int, ...]
    num_classes: int | None = None
    classes: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs in graph order, and the target."""

    inputs: tuple[TensorSpec, ...]
    target: TargetSpec


@dataclass(frozen=True, slots=True)
class FileRecord:
    """An immutable file, named by its SHA-256 (lower-case hex)."""

    sha256: str
    size_bytes: int


@dataclass(frozen=True, slots=True)
class SampleCounts:
    """Samples of a model. An unlabelled sample counts as nothing but unlabelled."""

    train: int = 0
    validation: int = 0
    unlabelled: int = 0


@dataclass(frozen=True, slots=True)
class Quota:
    """Most samples and bytes of a model, None for no limit; when_full: which go first.

    `oldest`: the lowest ids. `reservoir`: those that leave an even choice of all that ever came.
    `balanced`: of the class that has most. Validation samples and pinned ones stay.
    """

    max_samples: int | None = None
    max_bytes: int | None = None
    when_full: WhenFull = "oldest"


@dataclass(frozen=True, slots=True)
class NewModel:
    """A model to be registered; files: role (`training_model`, …) → published file."""

    name: str
    loss: Loss
    optimizer: Optimizer
    output: str
    signature: Signature
    trainable: tuple[str, ...]
    trainable_parameters: int
    frozen_parameters: int
    hyperparameters: dict[str, Any]
    files: dict[str, FileRecord]
    notes: tuple[str, ...] = ()
    gate: dict[str, Any] = field(default_factory=dict)
    retention: dict[str, Any] = field(default_factory=dict)
    preprocess: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Model:
    """A registered model. trainable: names of the initializers that train.

    trainable_parameters, frozen_parameters: counts of scalars. files: role → file.
    notes: what was changed in the graph so that it trains. gate, retention: what differs from the
    defaults. held_since: since when jobs must not move `latest`, None while they may.
    reference_frozen_at: when the reference set was frozen, None without one.
    """

    id: int
    name: str
    created_at: datetime
    loss: Loss
    optimizer: Optimizer
    output: str
    signature: Signature
    trainable: tuple[str, ...]
    trainable_parameters: int
    frozen_parameters: int
    hyperparameters: dict[str, Any]
    files: dict[str, FileRecord]
    notes: tuple[str, ...]
    samples: SampleCounts
    latest_version: int | None
    gate: dict[str, Any]
    retention: dict[str, Any]
    held_since: datetime | None
    reference_frozen_at: datetime | None
    preprocess: tuple[dict[str, Any], ...] = ()
    quota: Quota = Quota()


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample's row. label: class index, or the target's float32 bytes, or None.

    pinned: no quota takes it away. quarantine: why training leaves it out, None where it does not.
    """

    id: int
    model_id: int
    key: str | None
    split: Split
    label: int | bytes | None
    sha256: str
    size_bytes: int
    created_at: datetime
    pinned: bool = False
    quarantine: str | None = None


@dataclass(frozen=True, slots=True)
class StageResult:
    """What became of an upload. Ids of the accepted samples are consecutive, None without any.

    evicted: samples that the model's quota took away for it, its own among them.
    """

    accepted: int
    duplicates: int
    first_id: int | None = None
    last_id: int | None = None
    evicted: int = 0


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job to be enqueued. start: `latest`, `base` or a checkpoint's id.

    priority: of two jobs that wait, the one with the higher goes first.
    """

    model_id: int
    trigger: str
    hyperparameters: dict[str, Any]
    start: str
    ignore_policy: bool = False
    priority: int = 0


@dataclass(frozen=True, slots=True)
class Blocker:
    """One condition that keeps a job from running, with its number and its limit."""

    condition: str
    detail: str


@dataclass(frozen=True, slots=True)
class Job:
    """A job's row. watermark: highest sample id that it reads. progress, metrics: as the API
    shows them. error: `{"code", "detail", …}` of a failed job."""

    id: int
    model_id: int
    model: str
    state: JobState
    trigger: str
    hyperparameters: dict[str, Any]
    start: str
    ignore_policy: bool
    watermark: int
    created_at: datetime
    blocked_by: tuple[Blocker, ...] = ()
    progress: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    version: int | None = None
    restarts: int = 0
    error: dict[str, Any] | None = None
    started_at: datetime | None = None
    finished_at: datetime | None = None
    priority: int = 0


@dataclass(frozen=True, slots=True)
class NewTrigger:
    """What is to ask for jobs of a model. rule: see `service.triggers.rule`, as JSON."""

    model_id: int
    name: str
    rule: dict[str, Any]
    hyperparameters: dict[str, Any]
    priority: int
    enabled: bool


@dataclass(frozen=True, slots=True)
class Trigger:
    """A trigger's row. labelled: samples with a label when it last fired, or was made.

    tried_at, outcome: of its last try, for people. fired_at, job_id: of the last job that it asked
    for.
    """

    id: int
    model_id: int
    model: str
    name: str
    rule: dict[str, Any]
    hyperparameters: dict[str, Any]
    priority: int
    enabled: bool
    created_at: datetime
    labelled: int
    tried_at: datetime | None
    fired_at: datetime | None
    job_id: int | None
    outcome: str


@dataclass(frozen=True, slots=True)
class StoredPolicy:
    """What people have asked for. settings: None while the device's defaults hold.

    paused: everything, by hand, until it is resumed.
    """

    settings: dict[str, Any] | None
    snoozed_until: datetime | None
    paused: bool


@dataclass(frozen=True, slots=True)
class MetricPoint:
    """One point of a job's curves: values by name at a step."""

    step: int
    epoch: int
    values: dict[str, float]


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Training state of a job after `step`. role: `periodic`, `best` or `final`.

    state: the loop's own state, from which a job goes on bit for bit.
    """

    id: int
    model_id: int
    job_id: int
    role: Role
    step: int
    epoch: int
    file: FileRecord
    state: dict[str, Any]
    pinned: bool
    note: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Variant:
    """Another form of a version's model. file: None if it was refused; reason says why.

    method: how it was made. metrics: on the samples that the version was measured on as well.
    """

    name: VariantName
    file: FileRecord | None
    method: str
    metrics: dict[str, Any]
    verdict: dict[str, Any]
    reason: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Version:
    """An exported inference model, immutable, numbered from 1 within its model.

    promoted, reason, verdict: what the gate decided when it was made. metrics, baseline: of it and
    of what `latest` named then, on the same samples. provenance: where it comes from.
    """

    model_id: int
    model: str
    version: int
    file: FileRecord
    created_at: datetime
    job_id: int | None
    checkpoint_id: int | None
    metrics: dict[str, Any]
    baseline: dict[str, Any]
    promoted: bool
    reason: str
    aliases: tuple[str, ...]
    verdict: dict[str, Any]
    provenance: dict[str, Any]
    variants: tuple[Variant, ...]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; ids rise by one and are never used again."""

    id: int
    type: str
    model: str | None
    data: dict[str, Any]
    created_at: datetime
