"""JSON bodies of device, policy and triggers."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Literal, get_type_hints

from pydantic import ConfigDict, Field, JsonValue

from api.schemas.base import Body, Name, Request, Text, Time, shows, with_fields
from api.schemas.jobs import BlockerBody, JobHyperparameters, Priority
from service.device.reading import Reading
from service.installation.checks import Check
from service.policy.judge import LONGEST_SNOOZE, Verdict
from service.policy.policy import Policy
from service.triggers.rule import Rule
from storage.records.jobs import Trigger

EXAMPLE_POLICY: dict[str, JsonValue] = {"require_idle": True, "max_minutes_per_day": 120}
EXAMPLE_TRIGGER: dict[str, JsonValue] = {"new_samples": 500, "at_most_every_hours": 6}


@shows(Reading, without=("name", "read_at"), value=Any, source=str, age_seconds=float)
class SignalBody(Body):
    """One signal. value: null for unknown, and detail then says why."""


class VerdictBody(Body):
    """Whether a job may train now, and if not, everything that prevents it, with value and limit.

    since: when eligible last changed. paused, snoozed_until: by hand.
    """

    eligible: bool
    blocked_by: list[BlockerBody]
    since: datetime
    paused: bool
    snoozed_until: datetime | None


class DeviceBody(VerdictBody):
    """The signals of the device, and the verdict."""

    trained_today_seconds: float
    signals: dict[str, SignalBody]


class SignalHistoryBody(Body):
    """One signal over time: means of numbers, or the share of yes; null where unknown."""

    unit: str
    values: list[float | None]


class DeviceHistoryBody(Body):
    """The device over time, in intervals of equal length without gaps; the first begins at since.

    eligible: whether a job might train throughout; null while the daemon was not there.
    """

    since: datetime
    interval_seconds: float
    eligible: list[bool | None]
    trained_seconds: list[float]
    signals: dict[str, SignalHistoryBody]


@with_fields({name: (kind, ...) for name, kind in get_type_hints(Policy).items()})
class PolicyBody(Body):
    """When a job may train and what it may take. docs/policy.md explains each setting."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_POLICY]})


@shows(Verdict, without=("since",), blocked_by=list[BlockerBody])
class PolicyCheckBody(Body):
    """Whether a job might train under a policy, and if not, everything that would prevent it."""


@shows(Check, remedy=str | None)
class CheckBody(Body):
    """One thing looked at. remedy: what to do unless it is ok."""


class BackupBody(Body):
    """A copy of the database that the daemon has made by itself."""

    made_at: datetime
    size_bytes: int


class SystemBody(Body):
    """What the daemon runs on. backups: its own, newest first."""

    versions: dict[str, str]
    data_dir: str
    checks: list[CheckBody]
    backups: list[BackupBody]


class SnoozeRequest(Request):
    """Exactly one of minutes (from now) and until (a time, or `morning`)."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"minutes": 30}, {"until": "morning"}]}
    )

    minutes: float | None = Field(
        None, gt=0, le=LONGEST_SNOOZE / timedelta(minutes=1), allow_inf_nan=False
    )
    until: Literal["morning"] | Time | None = None


class TriggerFields(Request):
    """What a trigger waits for, and the jobs that it queues."""

    name: Name | None = Field(None, description="The `trigger` of its jobs. Default: its kind.")
    cron: Text | None = Field(
        None, description="Minute, hour, day, month, day of the week: `30 2 * * mon-fri`."
    )
    time_zone: Text | None = Field(None, description="Such as `Europe/Berlin`; default: local.")
    jitter_seconds: float = Field(
        0,
        ge=0,
        le=86_400,
        allow_inf_nan=False,
        description="Delays each firing of cron at random by up to this.",
    )
    new_samples: int | None = Field(
        None, ge=1, le=10**9, description="Fire when this many more samples have a label."
    )
    on_drift: bool | None = Field(
        None, description="true: fire when inputs have drifted from those of `latest`."
    )
    eligible_after: Text | None = Field(
        None,
        description="Fire at the first moment at which a job may train, after `02:00` each day "
        "or after an instant (RFC 3339), once.",
    )
    at_most_every_hours: float | None = Field(
        None, gt=0, le=8_760, allow_inf_nan=False, description="Alone: fire that often."
    )
    hyperparameters: JobHyperparameters = JobHyperparameters()
    priority: Priority = 0
    enabled: bool = True


class TriggerRequest(TriggerFields):
    """cron, new_samples, on_drift or eligible_after; at_most_every_hours goes with it or alone."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE_TRIGGER]})


class TriggerPatch(TriggerFields):
    """The changes. Fields that are absent stay as they are; null removes a value."""

    model_config = ConfigDict(json_schema_extra={"examples": [{"enabled": False}]})


@shows(
    Trigger,
    without=("model_id", "rule", "labelled"),
    name=str,
    **get_type_hints(Rule),
    created_at=datetime,
    next_at=datetime | None,
)
class TriggerBody(Body):
    """A trigger. fired_at, job_id: of the last job it asked for.

    tried_at, outcome: of its last try; null and empty from a change until it tries again.
    next_at: when it fires next, or may fire; null if it waits for samples or is switched off.
    """
