"""Jobs, their triggers, the conditions that block them, and their metrics."""

from __future__ import annotations

from datetime import datetime
from enum import Enum
from typing import Any, Literal, TypedDict

from msgspec import Struct, field


class JobState(str, Enum):
    """The state of a job."""

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


class NewJob(Struct, frozen=True):
    """A job to be enqueued. start: `latest`, `base` or a checkpoint's id.

    priority: of two waiting jobs the one with the higher runs first. class_ids: the classes that
    the hyperparameters were checked against. base: the one to train, None for the current one.
    """

    model_id: int
    trigger: str
    hyperparameters: dict[str, Any]
    start: str
    ignore_policy: bool = False
    priority: int = 0
    class_ids: tuple[int, ...] | None = None
    base: int | None = None


class Blocker(Struct, frozen=True):
    """One condition that keeps a job from running, with its number and its limit."""

    condition: str
    detail: str


class Job(Struct, frozen=True, kw_only=True):
    """A job's row. watermark: highest sample id that it reads. progress, metrics: as the API
    shows them. engine: the last one that trained it, None before its first start. choices:
    hyperparameter → why the job chose its value. error: `{"code", "detail", …}` of a failed job.
    base: the one that it trains, None before its first start if that is the current one.
    """

    id: int
    model_id: int
    model: str
    state: JobState
    blocked_by: tuple[Blocker, ...] = ()
    trigger: str
    start: str
    priority: int = 0
    ignore_policy: bool
    hyperparameters: dict[str, Any]
    choices: dict[str, str] = field(default_factory=dict)
    watermark: int
    base: int | None = None
    progress: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    version: int | None = None
    engine: str | None = None
    restarts: int = 0
    error: dict[str, Any] | None = None
    created_at: datetime
    started_at: datetime | None = None
    finished_at: datetime | None = None


class NewTrigger(Struct, frozen=True):
    """A trigger to be stored. rule: see `service.triggers.rule`, as JSON."""

    model_id: int
    name: str
    rule: dict[str, Any]
    hyperparameters: dict[str, Any]
    priority: int
    enabled: bool


class Trigger(Struct, frozen=True):
    """A trigger's row. labelled: the number of labelled samples when it last fired or was reset.

    tried_at, outcome: of its last attempt, for people; without an outcome, tried_at is when it was
    reset. fired_at, job_id: of the last job that it queued.
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


class StoredPolicy(Struct, frozen=True):
    """The policy as people set it. settings: None while the device's defaults apply.

    paused: all training, manually, until it is resumed.
    """

    settings: dict[str, Any] | None
    snoozed_until: datetime | None
    paused: bool


class JobFields(TypedDict, total=False):
    """Fields of a job that change while it waits and runs; None leaves one as it is."""

    blocked_by: tuple[Blocker, ...] | None
    progress: dict[str, Any] | None
    metrics: dict[str, Any] | None
    version: int | None
    error: dict[str, Any] | None
    restarts: int | None
    engine: str | None
    ignore_policy: bool | None


class LogLine(Struct, frozen=True):
    """One line of a job's log. source: written by the `child`, or by the `daemon` about it."""

    at: datetime
    source: Literal["child", "daemon"]
    text: str


class DeviceMinute(Struct, frozen=True):
    """The device in one minute.

    at: its beginning. eligible: whether jobs were allowed throughout. trained_s: how long one ran.
    signals: means of numbers; for booleans the fraction that was true. Unknown ones are absent.
    """

    at: datetime
    eligible: bool
    trained_s: float
    signals: dict[str, float]


class MetricPoint(Struct, frozen=True):
    """One point of a job's curves: the values at a step, by name."""

    step: int
    epoch: int
    values: dict[str, float]
