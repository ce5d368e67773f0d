"""Bodies of jobs and their checkpoints."""

from __future__ import annotations

from datetime import datetime
from functools import reduce
from operator import or_
from types import UnionType
from typing import Annotated, Any, Literal, get_args, get_origin

from pydantic import ConfigDict, Field

from api.schemas.base import Body, Request, with_fields
from service.training.hyperparameters import declared
from storage.records.versions import Role

State = Literal["queued", "running", "paused", "succeeded", "failed", "cancelled"]


def _optional(kind: Any, bounds: dict[str, Any]) -> tuple[Any, Any]:
    """A field of this type; a number must be finite, though JSON as Python reads it has NaN."""
    finite = False if float in (kind, *get_args(kind)) else None
    return _in_json(kind) | None, Field(None, allow_inf_nan=finite, **bounds)


def _in_json(kind: Any) -> Any:
    """A type as JSON has it: with lists for tuples."""
    if isinstance(kind, UnionType):
        return reduce(or_, map(_in_json, get_args(kind)))
    return list[get_args(kind)[0]] if get_origin(kind) is tuple else kind  # type: ignore[misc]


@with_fields({each.name: _optional(each.kind, each.about.bounds) for each in declared()})
class JobHyperparameters(Request):
    """How long and how a job trains. The first of epochs, max_steps, max_seconds ends it."""


Priority = Annotated[
    int,
    Field(
        ge=-100,
        le=100,
        description="Of two waiting jobs, the one with the higher priority runs first.",
    ),
]


class JobRequest(JobHyperparameters):
    """A job to be queued. Every field has a default."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"epochs": 5, "batch_size": 64}]})

    from_: Annotated[
        Literal["latest", "base"] | Annotated[int, Field(ge=1, lt=2**63)],
        Field(alias="from", description="Where to begin."),
    ] = "latest"
    ignore_policy: bool = Field(
        False, description="Run now, regardless of the policy. A pause or a snooze still holds it."
    )
    priority: Priority = 0


class ResumeRequest(Request):
    """How a job resumes."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"ignore_policy": True}]})

    ignore_policy: bool = Field(
        False,
        description="Ignore the policy from now on, and run now; a pause or a snooze still holds "
        "the job. False leaves it as the job says.",
    )


class BlockerBody(Body):
    """One condition that a job waits for."""

    condition: str
    detail: str


class ProgressBody(Body):
    """Progress of a job. total_steps and eta_seconds are null if the job is limited by time."""

    step: int = 0
    total_steps: int | None = None
    epoch: int = 0
    epochs: int | None = None
    samples_per_second: float | None = None
    eta_seconds: float | None = None


class MetricsBody(Body):
    """train_loss: mean of the last epoch. baseline: validation before the first step.

    promoted, reason: what the gate has decided on the version, null until there is one. warnings:
    what may keep the job from learning, for people.
    """

    train_loss: float | None = None
    validation: dict[str, Any] | None = None
    baseline: dict[str, Any] | None = None
    ended: str | None = None
    promoted: bool | None = None
    reason: str | None = None
    warnings: list[str] = Field(default_factory=list)


class JobErrorBody(Body):
    """Why a job failed."""

    code: str
    detail: str


class JobBody(Body):
    """One training run of one model. engine: what trained it last, null before its first start.

    choices: hyperparameters that the job has chosen for itself, each with the reason. Until it has
    begun, they are missing in hyperparameters.
    """

    id: int
    model: str
    state: State
    blocked_by: list[BlockerBody]
    trigger: str
    priority: int
    ignore_policy: bool
    hyperparameters: dict[str, Any]
    choices: dict[str, str]
    watermark: int
    progress: ProgressBody
    metrics: MetricsBody
    version: int | None
    engine: str | None
    restarts: int
    error: JobErrorBody | None
    created_at: datetime
    started_at: datetime | None
    finished_at: datetime | None


class MetricPointBody(Body):
    """Values by name at a step: train_loss, learning_rate, validation_loss, …"""

    step: int
    epoch: int
    values: dict[str, float]


class LogLineBody(Body):
    """One line. source: `child` for what a child of the job wrote, `daemon` for what it knows."""

    at: datetime
    source: Literal["child", "daemon"]
    text: str


class JobLogBody(Body):
    """The last lines, oldest first: at most 200, of 64 KiB together."""

    lines: list[LogLineBody]


class CheckpointBody(Body):
    """Training state of a job after `step`. engine: what wrote it."""

    id: int
    model: str
    job_id: int
    role: Role
    step: int
    epoch: int
    engine: str
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
