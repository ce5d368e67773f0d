"""The observer: reads the device and judges the readings; everything here may block.

Today's training time is by the local calendar, and survives restarts.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from datetime import date
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from service.device.memory import usable_memory_bytes, usable_processors
from service.device.reading import Moment, Sensor, Signals
from service.device.sensors import Device
from service.logs import event
from service.policy.history import SignalHistory
from service.policy.judge import Judge, Verdict
from service.policy.policy import Policy, default_policy
from service.policy.validation import from_dict
from service.settings import Settings
from storage.errors import HoneError, StorageBroken
from storage.records.jobs import Blocker, Job, StoredPolicy
from storage.store import Store
from storage.tables.policy import PolicyRows

WRITE_INTERVAL_S = 60.0
"""A killed daemon loses at most this much."""


class DayBudget:
    """Counts the seconds in which a job trains. Blocking; one thread at a time may use it."""

    def __init__(self, rows: PolicyRows) -> None:
        self._rows = rows
        self._today: date | None = None
        self._stored_s = 0.0
        self._unwritten_s: defaultdict[date, float] = defaultdict(float)
        self._counted_to_s: float | None = None

    def count(self, now: Moment, *, training: bool) -> float:
        """Seconds since local midnight. training: whether a job trains from now on.

        Time is measured by the monotonic clock, and belongs to the day on which it is counted.
        """
        today = now.wall.astimezone().date()
        if today != self._today:
            self._today, self._stored_s = today, self._rows.trained_s(today)
        if self._counted_to_s is not None:
            self._unwritten_s[today] += max(0.0, now.monotonic_s - self._counted_to_s)
        self._counted_to_s = now.monotonic_s if training else None
        return self._stored_s + self._unwritten_s[today]

    @property
    def is_due(self) -> bool:
        """Whether it is time to write: a minute has accumulated, or training has ended."""
        unwritten_s = sum(self._unwritten_s.values())
        return unwritten_s >= WRITE_INTERVAL_S or (unwritten_s > 0 and self._counted_to_s is None)

    def write(self) -> None:
        """Make the count durable. If that fails, it is kept for the next time."""
        for day, seconds in list(self._unwritten_s.items()):
            if seconds > 0:
                self._rows.add_trained(day, seconds)
            if day == self._today:
                self._stored_s += seconds
            del self._unwritten_s[day]


logger = logging.getLogger(__name__)

ASLEEP = Blocker("asleep", "the device is going to sleep; training resumes when it wakes up")


class Observation(Struct, frozen=True):
    """The device and the verdict at one moment.

    verdict: for jobs under the policy. in_spite: for those that ignore it. clock_changed: since the
    previous reading, the wall clock has jumped, the device has slept, or its time zone has changed.
    """

    at: Moment
    snapshot: Signals
    policy: Policy
    verdict: Verdict
    in_spite: Verdict
    trained_today_s: float
    asked_for: StoredPolicy
    clock_changed: bool

    def blockers(self, job: Job) -> tuple[Blocker, ...]:
        """What blocks this job."""
        return (self.in_spite if job.ignore_policy else self.verdict).blocked_by

    @property
    def conditions(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The blocking conditions by name: they change less often than the details."""
        return self.verdict.conditions, self.in_spite.conditions


class Observer:
    """One device under one judge. One thread at a time may use it. user_idle: as of `Device`."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        clock: Callable[[], Moment],
        *,
        history: SignalHistory,
        user_idle: Sensor | None,
    ) -> None:
        now = clock()
        self._history = history
        self._store = store
        self._settings = settings
        self._clock = clock
        self._budget = DayBudget(store.policy)
        self._latest: Observation | None = None
        self._device = Device(
            data_dir=settings.data_dir,
            now=now,
            user_idle=user_idle,
            sysfs=settings.sysfs_root,
            procfs=settings.procfs_root,
        )
        roots = {"procfs": settings.procfs_root, "sysfs": settings.sysfs_root}
        self._processors = usable_processors(**roots)
        self._usable_memory_bytes = usable_memory_bytes(**roots)
        self._policy_source: tuple[dict[str, Any] | None, bool] = None, False
        self._parsed = self._default_policy(has_battery=False)
        self._judge = Judge()

    def observe(self, asked_for: StoredPolicy, *, trains: bool, asleep: bool) -> Observation:
        """Read the device, judge, and send notifications if the verdict has changed.

        trains: whether a job trains from now on. asleep: the device is about to sleep.
        """
        now = self._clock()
        snapshot = self._device.read(now)
        policy = self._policy(asked_for, self._judge.known(snapshot, now))
        self._device.watch(policy.blocking_processes)
        self._device.hurry(user_idle=policy.require_idle)
        trained_today_s = self._count(now, trains=trains)
        verdict, in_spite = (
            self._judge.judge(
                policy,
                snapshot,
                now,
                trained_today_s=trained_today_s,
                snoozed_until=asked_for.snoozed_until,
                paused=asked_for.paused,
                ignore_policy=ignore_policy,
            )
            for ignore_policy in (False, True)
        )
        observation = Observation(
            at=now,
            snapshot=snapshot,
            policy=policy,
            verdict=_asleep(verdict) if asleep else verdict,
            in_spite=_asleep(in_spite) if asleep else in_spite,
            trained_today_s=trained_today_s,
            asked_for=asked_for,
            clock_changed=self._clock_changed(now, snapshot),
        )
        self._tell(observation)
        self._note(observation)
        self._latest = observation
        return observation

    def close(self) -> None:
        """Write the counted time and the history, release the device."""
        with suppress(StorageBroken):  # the writer has logged it, and the daemon stops
            self._count(self._clock(), trains=False)
            self._keep(self._history.close)
        self._device.close()

    def _policy(self, asked_for: StoredPolicy, signals: Signals) -> Policy:
        """The policy as stored, parsed once it or the presence of a battery has changed."""
        source = asked_for.settings, signals.flag("battery_present") is True
        if source != self._policy_source:
            settings, has_battery = source
            default = self._default_policy(has_battery=has_battery)
            self._parsed = default if settings is None else from_dict(settings, base=default)
            self._policy_source = source
        return self._parsed

    def _default_policy(self, *, has_battery: bool) -> Policy:
        return default_policy(
            has_battery,
            processors=self._processors,
            usable_memory_bytes=self._usable_memory_bytes,
            threads=self._settings.training_threads,
            nice=self._settings.training_nice,
            memory_bytes=self._settings.training_memory_bytes,
        )

    def _count(self, now: Moment, *, trains: bool) -> float:
        trained_today_s = self._budget.count(now, training=trains)
        if self._budget.is_due:
            self._keep(self._budget.write)
        return trained_today_s

    def _clock_changed(self, now: Moment, snapshot: Signals) -> bool:
        before = self._latest
        if before is None:
            return False
        zone, known = (each.readings["local_time"].source for each in (snapshot, before.snapshot))
        return now.jumped_since(before.at) or zone != known

    def _tell(self, observation: Observation) -> None:
        known = () if self._latest is None else self._latest.verdict.conditions
        if observation.verdict.conditions == known:
            return
        blocked_by = [asdict(blocker) for blocker in observation.verdict.blocked_by]
        told = {"eligible": observation.verdict.eligible, "blocked_by": blocked_by}
        event(logger, logging.INFO, "device.verdict", **told)
        self._keep(lambda: self._store.events.append("device.verdict", None, told))

    def _note(self, observation: Observation) -> None:
        self._history.add(
            observation.at,
            observation.snapshot.readings,
            eligible=observation.verdict.eligible,
            trained_today_s=observation.trained_today_s,
        )
        if self._history.is_due:
            self._keep(self._history.write)

    def _keep(self, write: Callable[[], object]) -> None:
        """A full disk or queue does not stop the judging: only a record is lost."""
        try:
            write()
        except StorageBroken:
            raise
        except HoneError as error:
            event(logger, logging.WARNING, "observer.not_written", detail=error.detail)


def _asleep(verdict: Verdict) -> Verdict:
    return replace(verdict, eligible=False, blocked_by=(ASLEEP, *verdict.blocked_by))
