"""Bodies of jobs and their checkpoints."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_args

from pydantic import ConfigDict, Field

from api.schemas.base import Body, Request, in_json, shows, with_fields
from service.training.hyperparameters import declared
from storage.records.jobs import Blocker, Job, JobState, LogLine, MetricPoint
from storage.records.versions import Checkpoint

State = in_json(JobState)


def _optional(kind: Any, bounds: dict[str, Any]) -> tuple[Any, Any]:
    """A field of this type; a number must be finite, though JSON as Python reads it has NaN."""
    finite = False if float in (kind, *get_args(kind)) else None
    return in_json(kind) | None, Field(None, allow_inf_nan=finite, **bounds)


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


@shows(Blocker)
class BlockerBody(Body):
    """One condition that a job waits for."""


class ProgressBody(Body):
    """Progress of a job. total_steps and eta_seconds are null if the job is limited by time, and
    eta_seconds once it has ended.
    """

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


@shows(
    Job,
    without=("model_id", "start"),
    blocked_by=list[BlockerBody],
    progress=ProgressBody,
    metrics=MetricsBody,
    error=JobErrorBody | None,
)
class JobBody(Body):
    """One training run of one model. engine: what trained it last, null before its first start.

    choices: hyperparameters that the job has chosen for itself, each with the reason. Until it has
    begun, they are missing in hyperparameters.
    """


@shows(MetricPoint)
class MetricPointBody(Body):
    """Values by name at a step: train_loss, learning_rate, validation_loss, …"""


@shows(LogLine)
class LogLineBody(Body):
    """One line. source: `child` for what a child of the job wrote, `daemon` for what it knows."""


class JobLogBody(Body):
    """The last lines, oldest first: at most 200, of 64 KiB together."""

    lines: list[LogLineBody]


@shows(Checkpoint, without=("model_id", "state"), id=int, model=str)
class CheckpointBody(Body):
    """Training state of a job after `step`. engine: what wrote it."""


class CheckpointPatch(Request):
    """pinned: kept until deleted by hand. note: for people."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"pinned": True}]})

    pinned: bool | None = None
    note: str | None = Field(None, max_length=1000)
