"""When triggers are checked: at times from our own table, in APScheduler's memory."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta, timezone

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger
from apscheduler.triggers.date import DateTrigger

from service.background import Every
from service.events import Feed
from service.logs import event
from service.policy.device_monitor import DeviceMonitor
from service.policy.observer import Observation
from service.samples.drift import EVENT as DRIFTED
from service.triggers.checker import TriggerChecker
from service.triggers.cron import cron_trigger
from service.triggers.due import interval_begin
from service.triggers.rule import UNUSABLE, Rule, moment_of
from service.triggers.zone import zone_of
from storage.database.codec import utc_now
from storage.database.transaction import Happening
from storage.records.jobs import Trigger
from storage.store import Store

logger = logging.getLogger(__name__)

SWEEP_S = 60
"""How often all are checked: for intervals, and for labels without an event."""
SOON_AT_ONCE = 8
PREFIX = "trigger:"


class Schedule:
    """Has triggers checked at their times, after new samples, and when the verdict changes.

    Everything runs through the scheduler, so that a failure in one job ends nothing else.
    """

    def __init__(
        self, store: Store, scheduler: AsyncIOScheduler, *, monitor: DeviceMonitor, feed: Feed
    ) -> None:
        self._store = store
        self._scheduler = scheduler
        self._checker = TriggerChecker(
            store, latest=lambda: monitor.latest, now=lambda: monitor.now().wall
        )
        self._listens_for_samples: frozenset[str] = frozenset()
        self._was_eligible = False
        feed.listen(self._on_event)
        monitor.listen(self._on_observation)

    def start(self) -> None:
        """Read the triggers, and check all of them periodically."""
        self._scheduler.add_job(self._checker.check, Every(SWEEP_S), id="triggers")
        self._soon("rebuild")

    def _on_event(self, happened: Happening) -> None:
        if happened.type.startswith("trigger.") or happened.type == "model.deleted":
            self._soon("rebuild")
        elif happened.type == DRIFTED or (
            happened.type.startswith("samples.") and happened.model in self._listens_for_samples
        ):
            self._soon("check", happened.model)

    def _on_observation(self, observation: Observation) -> None:
        if observation.clock_changed:
            self._soon("rebuild")
        elif observation.verdict.eligible and not self._was_eligible:
            self._soon("check")
        self._was_eligible = observation.verdict.eligible

    def _soon(self, what: str, model: str | None = None) -> None:
        """Run once now; a pending run is not queued twice."""
        self._scheduler.add_job(
            self._rebuild if what == "rebuild" else self._checker.check,
            args=[] if what == "rebuild" else [model],
            id=f"{what}:{model or ''}",
            replace_existing=True,
            max_instances=SOON_AT_ONCE,
        )

    async def _rebuild(self) -> None:
        triggers = [t for t in await asyncio.to_thread(self._store.triggers.list) if t.enabled]
        for job in self._scheduler.get_jobs():
            if job.id.startswith(PREFIX):
                job.remove()
            elif isinstance(job.trigger, Every):  # sooner, if the clock was ahead
                again_at = job.trigger.get_next_fire_time(None, utc_now())
                job.modify(next_run_time=min(job.next_run_time, again_at))
        for trigger in triggers:
            self._try_to_add(trigger)
        self._listens_for_samples = frozenset(
            trigger.model for trigger in triggers if trigger.rule.get("new_samples") is not None
        )
        await asyncio.to_thread(self._checker.check)

    def _try_to_add(self, trigger: Trigger) -> None:
        """One that cannot be scheduled does not affect the others."""
        try:
            rule = Rule(**trigger.rule)
            when = _times(rule, jitter_s=rule.jitter_seconds)
            if when is None:
                return
            work: Callable[..., None] = self._checker.check
            args: list[object] = [trigger.model]
            if rule.cron is not None:
                work, args = self._checker.fire, [trigger.id]
            self._scheduler.add_job(work, when, args=args, id=f"{PREFIX}{trigger.id}")
        except UNUSABLE as error:
            fields = {"trigger": trigger.id, "why": str(error)}
            event(logger, logging.ERROR, "trigger.not_scheduled", **fields)


def _times(rule: Rule, *, jitter_s: float = 0.0) -> BaseTrigger | None:
    """The times that a rule names, None for one that names none. Raises as UNUSABLE."""
    if rule.cron is not None:
        return cron_trigger(rule.cron, zone_of(rule.time_zone), jitter_s=jitter_s)
    if rule.eligible_after is None:
        return None
    moment = moment_of(rule.eligible_after)
    if isinstance(moment, datetime):
        return DateTrigger(moment, timezone=timezone.utc)
    return cron_trigger(f"{moment[1]} {moment[0]} * * *", zone_of(rule.time_zone))


def next_time(trigger: Trigger, *, now: datetime) -> datetime | None:
    """When it fires next, or may from then on, in UTC.

    None for one that is disabled, waits for samples, will never fire again, or cannot fire.
    """
    try:
        rule = Rule(**trigger.rule)
        moment = _next_moment(trigger, rule, now) if trigger.enabled else None
    except UNUSABLE:
        return None
    return moment and moment.astimezone(timezone.utc)


def _next_moment(trigger: Trigger, rule: Rule, now: datetime) -> datetime | None:
    if rule.is_once and trigger.fired_at is not None:
        return None
    when = _times(rule)
    if when is not None:
        moment: datetime | None = when.get_next_fire_time(None, now)
        return moment
    if rule.kind == "interval" and rule.at_most_every_hours is not None:
        rest = timedelta(hours=rule.at_most_every_hours)
        return max(now, interval_begin(trigger) + rest)
    return None
