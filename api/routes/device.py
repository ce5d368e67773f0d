"""The device, the policy, and manual control: snooze, pause, resume."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request

from api.access.scopes import needs
from api.dependencies import TheDaemon
from api.protocol import ENDS
from api.routing import Route
from api.schemas.device import (
    DeviceBody,
    DeviceHistoryBody,
    PolicyBody,
    PolicyCheckBody,
    SignalBody,
    SignalHistoryBody,
    SnoozeRequest,
    VerdictBody,
)
from service.access.principal import Scope
from service.device.reading import Moment, Reading
from service.errors import InvalidInput, NoSession
from service.policy.device_monitor import next_morning
from service.policy.history import intervals
from service.policy.judge import LONGEST_SNOOZE
from service.policy.observer import Observation
from service.policy.policy import Policy
from service.policy.validation import to_dict

router = APIRouter(prefix="/v1", tags=["device"], route_class=Route)

WRITES = ("busy", "not_ready", "storage_full")
FRESH_S = 1.0
LONGEST_IDLE_S = 2**32
IdleSeconds = Annotated[
    float,
    Query(
        ge=0,
        le=LONGEST_IDLE_S,
        allow_inf_nan=False,
        description="Seconds since the last input in the session of the process that sends this.",
    ),
]

Hours = Annotated[int, Query(ge=1, le=24, description="How far back.")]
IntervalMinutes = Annotated[
    int, Query(ge=1, le=60, description="Minutes that one value stands for.")
]


@router.get("/device", summary="Show device and verdict")
@needs(Scope.DEVICE_POLICY, "not_ready")
async def show_device(daemon: TheDaemon) -> DeviceBody:
    """Every signal with its source and age, and whether a job may train now."""
    daemon.monitor.watch()
    observation = await daemon.monitor.observe(max_age_s=FRESH_S)
    now = daemon.monitor.now()
    return DeviceBody(
        **_verdict(observation).model_dump(),
        trained_today_seconds=observation.trained_today_s,
        signals={name: _signal(each, now) for name, each in observation.snapshot.readings.items()},
    )


@router.get("/device/history", summary="Show the device's last day")
@needs(Scope.DEVICE_POLICY, "not_ready")
def show_history(
    daemon: TheDaemon, hours: Hours = 24, interval: IntervalMinutes = 5
) -> DeviceHistoryBody:
    """Every signal that is a number, and when a job trained. The daemon keeps a day, and writes it
    every quarter of an hour: one that was killed has forgotten that much.
    """
    length, until = timedelta(minutes=interval), daemon.monitor.now().wall
    since = (until - timedelta(hours=hours)).replace(second=0, microsecond=0)
    history = intervals(
        daemon.monitor.history.since(since), since=since, until=until, length=length
    )
    observation = daemon.monitor.latest
    known = {} if observation is None else observation.snapshot.readings
    return DeviceHistoryBody(
        since=history.since,
        interval_seconds=length.total_seconds(),
        eligible=list(history.eligible),
        trained_seconds=list(history.trained_s),
        signals={
            name: SignalHistoryBody(
                unit=known[name].unit if name in known else "", values=list(values)
            )
            for name, values in history.signals.items()
        },
    )


@router.put("/device/input", summary="Report the last input of a session")
@needs(Scope.DEVICE_POLICY, "no_session", "not_ready", audited="skip")
async def report_input(daemon: TheDaemon, request: Request, idle_seconds: IdleSeconds) -> None:
    """What `honed watch-input` sends. On Windows it needs no token, and no body is read: the kernel
    says which process sends it, and the report counts only for the session of that process.
    """
    ends = request.scope["extensions"][ENDS]
    if None in ends.values():
        raise NoSession("the connection is gone before its other end could be looked at")
    await daemon.monitor.report_input(idle_seconds, **ends)


@router.get("/policy", summary="Show the policy")
@needs(Scope.DEVICE_POLICY, "not_ready")
async def show_policy(daemon: TheDaemon) -> PolicyBody:
    """When a job may train and what it may take."""
    return _policy((await daemon.monitor.observe()).policy)


@router.put("/policy", summary="Change the policy")
@needs(Scope.DEVICE_POLICY, *WRITES)
async def change_policy(
    daemon: TheDaemon, changes: Annotated[dict[str, Any], Body()]
) -> PolicyBody:
    """Changes the given settings and keeps the others. Takes effect immediately."""
    return _policy(await daemon.monitor.change_policy(changes))


@router.post("/policy/check", summary="Try a policy")
@needs(Scope.DEVICE_POLICY, "not_ready", audited="skip")
async def check_policy(
    daemon: TheDaemon, changes: Annotated[dict[str, Any], Body()]
) -> PolicyCheckBody:
    """Whether a job might train now if these settings were changed. Nothing is stored.

    The delays, such as `settle_seconds`, count as passed: it is the verdict that the policy comes
    to if the device stays as it is.
    """
    verdict = await daemon.monitor.check_policy(changes)
    return PolicyCheckBody.of(verdict)


@router.delete("/policy", summary="Reset the policy")
@needs(Scope.DEVICE_POLICY, *WRITES)
async def reset_policy(daemon: TheDaemon) -> PolicyBody:
    """Restores the defaults of the device, as before the first change."""
    return _policy(await daemon.monitor.reset_policy())


@router.post("/snooze", summary="Snooze")
@needs(Scope.DEVICE_POLICY, *WRITES)
async def snooze(daemon: TheDaemon, request: SnoozeRequest) -> VerdictBody:
    """Stops training for a while, whatever the policy and a job say; a running job is paused."""
    until = _end_of_snooze(request, daemon.monitor.now())
    return _verdict(await daemon.monitor.snooze(until))


@router.delete("/snooze", summary="End the snooze")
@needs(Scope.DEVICE_POLICY, *WRITES)
async def end_snooze(daemon: TheDaemon) -> VerdictBody:
    """Train again as the policy says."""
    return _verdict(await daemon.monitor.snooze(None))


@router.post("/pause", summary="Pause all training")
@needs(Scope.DEVICE_POLICY, *WRITES)
async def pause_all(daemon: TheDaemon) -> VerdictBody:
    """Stops training until it is resumed, also across restarts; a running job is paused."""
    return _verdict(await daemon.monitor.pause_all(paused=True))


@router.post("/resume", summary="Resume all training")
@needs(Scope.DEVICE_POLICY, *WRITES)
async def resume_all(daemon: TheDaemon) -> VerdictBody:
    """Trains again when the policy allows it. Jobs that were paused individually stay paused."""
    return _verdict(await daemon.monitor.pause_all(paused=False))


def _end_of_snooze(request: SnoozeRequest, now: Moment) -> datetime:
    if (request.minutes is None) == (request.until is None):
        raise InvalidInput.at("", 'give either "minutes" or "until"', title="a snooze has one end")
    if request.minutes is not None:
        return now.wall + timedelta(minutes=request.minutes)
    if not isinstance(request.until, datetime):
        return next_morning(now)
    left = request.until - now.wall
    if not timedelta() < left <= LONGEST_SNOOZE:
        detail = "must be a time to come, within the next seven days"
        raise InvalidInput.at("/until", detail, title="the snooze has a wrong end")
    return request.until


def _verdict(observation: Observation) -> VerdictBody:
    snoozed_until = observation.asked_for.snoozed_until
    return VerdictBody.of(
        observation.verdict,
        paused=observation.asked_for.paused,
        snoozed_until=snoozed_until if "snoozed" in observation.verdict.conditions else None,
    )


def _signal(reading: Reading, now: Moment) -> SignalBody:
    value = reading.value
    return SignalBody.of(
        reading,
        value=value.isoformat() if isinstance(value, datetime) else value,
        age_seconds=round(reading.age_s(now), 3),
    )


def _policy(policy: Policy) -> PolicyBody:
    return PolicyBody.model_validate(to_dict(policy))
