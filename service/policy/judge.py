"""The verdict: may a job run now, and if not, what blocks it.

Switches have two levels and two delays, so that a signal near its limit does not flap.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import datetime, timedelta

from msgspec import Struct

from service.device.reading import Moment, Reading, Signals
from service.policy.checks import ConditionCheck
from service.policy.conditions import checks
from service.policy.policy import Policy
from storage.records.jobs import Blocker


class Hysteresis(Struct):
    """One condition: open or blocked.

    It blocks when the signal has been bad for block_after_s without a break, and opens when it
    has been good for clear_after_s without a break. A signal between its two levels is neither, and
    changes nothing. The first update decides at once, and only a good signal opens.
    """

    is_blocked: bool | None = None
    changing_since_s: float | None = None

    def update(self, check: ConditionCheck, *, now_s: float) -> bool:
        """Whether the condition blocks now. now_s: monotonic."""
        if self.is_blocked is None:
            self.is_blocked = not check.good
            return self.is_blocked
        changes, delay_s = check.bad, check.block_after_s
        if self.is_blocked:
            changes, delay_s = check.good, check.clear_after_s
        if not changes:
            self.changing_since_s = None
            return self.is_blocked
        if self.changing_since_s is None:
            self.changing_since_s = now_s
        if now_s - self.changing_since_s >= delay_s:
            self.is_blocked = not self.is_blocked
            self.changing_since_s = None
        return self.is_blocked

    def held_s(self, now_s: float) -> float:
        """How long the signal has called for a change that has not been made yet."""
        return 0.0 if self.changing_since_s is None else now_s - self.changing_since_s

    def restart(self) -> None:
        """Nothing was observed for a while, so a running delay starts again."""
        self.changing_since_s = None


UNKNOWN_AFTER_S = 30.0
"""A failing signal keeps its last value this long: a single failed reading changes no verdict."""

NEVER_KEPT = frozenset({"user_idle_s"})
"""A person who has just logged in, without any input yet, must not count as idle."""

LONGEST_SNOOZE = timedelta(days=7)


class Verdict(Struct, frozen=True):
    """eligible: a job may run. blocked_by: every condition that blocks. since: wall, UTC."""

    eligible: bool
    blocked_by: tuple[Blocker, ...]
    since: datetime

    @property
    def conditions(self) -> tuple[str, ...]:
        """Names of the blocking conditions.

        They change less often than the details: log these changes.
        """
        return tuple(blocker.condition for blocker in self.blocked_by)


class Snooze(Struct, frozen=True):
    """Until a wall-clock time, but no longer than the duration at the time of the request.

    So setting the wall clock back does not prolong it.
    """

    until: datetime
    deadline_s: float

    def left_s(self, now: Moment) -> float:
        """Remaining seconds, by the clock that ends it first; it is over at 0 or below."""
        return min((self.until - now.wall).total_seconds(), self.deadline_s - now.monotonic_s)


class Judge:
    """Turns snapshots into verdicts; a state machine without its own clock.

    Call it once for each snapshot, in the order of time. Conditions block at once, except load and
    pressure, which have a grace period; they clear when the signal has been good for a while.
    """

    def __init__(self) -> None:
        self._switches: dict[str, Hysteresis] = {}
        self._last_known: dict[str, Reading] = {}
        self._last_look: Moment | None = None
        self._snooze: Snooze | None = None
        self._since: dict[bool, tuple[bool, datetime]] = {}

    def judge(
        self,
        policy: Policy,
        snapshot: Signals,
        now: Moment,
        *,
        trained_today_s: float = 0.0,
        snoozed_until: datetime | None = None,
        paused: bool = False,
        ignore_policy: bool = False,
    ) -> Verdict:
        """The verdict at this moment.

        trained_today_s: since local midnight. snoozed_until: aware. paused: everything, by hand.
        ignore_policy: for a job that runs despite the policy; a person's snooze or pause still
        stops it.
        """
        self._notice_jump(now)
        signals = self.known(snapshot, now)
        blockers = [*self._by_people(signals, now, snoozed_until, paused)]
        by_policy = [*self._by_policy(policy, signals, now, trained_today_s)]
        if not ignore_policy:
            blockers += by_policy
        eligible = not blockers
        return Verdict(eligible, tuple(blockers), self._held_since(eligible, now, ignore_policy))

    def known(self, snapshot: Signals, now: Moment) -> Signals:
        """The readings; a value that has just become unknown keeps its last value for a while."""
        readings = dict(snapshot.readings)
        for name, reading in snapshot.readings.items():
            last = self._last_known.get(name)
            if reading.value is not None:
                self._last_known[name] = reading
            elif name in NEVER_KEPT or last is None:
                continue
            elif last.age_s(now) < UNKNOWN_AFTER_S:
                readings[name] = last
        return Signals(readings)

    def _by_people(
        self, signals: Signals, now: Moment, snoozed_until: datetime | None, paused: bool
    ) -> Iterator[Blocker]:
        if paused:
            yield Blocker("paused", "training is paused by hand, until it is resumed")
        if snoozed_until is None:
            self._snooze = None
            return
        if self._snooze is None or self._snooze.until != snoozed_until:
            left = snoozed_until - now.wall
            # What ends later was set while the clock ran ahead.
            left_s = left.total_seconds() if left <= LONGEST_SNOOZE else 0.0
            self._snooze = Snooze(snoozed_until, now.monotonic_s + left_s)
        left_s = self._snooze.left_s(now)
        if left_s > 0:
            local = signals.time("local_time")
            end = snoozed_until.astimezone(local.tzinfo if local else None)
            minutes = math.ceil(left_s / 60)
            yield Blocker("snoozed", f"snoozed until {end:%a %H:%M}, {minutes} min more")

    def _by_policy(
        self, policy: Policy, signals: Signals, now: Moment, trained_today_s: float
    ) -> Iterator[Blocker]:
        found = checks(policy, signals, trained_today_s)
        by_condition = {check.condition: check for check in found}
        self._switches = {name: self._switches.get(name) or Hysteresis() for name in by_condition}
        for name, check in by_condition.items():
            switch = self._switches[name]
            if switch.update(check, now_s=now.monotonic_s):
                yield Blocker(name, _sentence(check, switch.held_s(now.monotonic_s)))

    def _notice_jump(self, now: Moment) -> None:
        """Restart pending delays after a sleep or a jump of the clock."""
        last, self._last_look = self._last_look, now
        if last is not None and now.jumped_since(last):
            for switch in self._switches.values():
                switch.restart()

    def _held_since(self, eligible: bool, now: Moment, ignore_policy: bool) -> datetime:
        was_eligible, since = self._since.get(ignore_policy, (not eligible, now.wall))
        if was_eligible != eligible:
            since = now.wall
        since = min(since, now.wall)
        self._since[ignore_policy] = (eligible, since)
        return since


def _sentence(check: ConditionCheck, held_s: float) -> str:
    if not check.good or check.clear_after_s == 0:
        return check.detail
    return f"{check.detail}; must stay so for {check.clear_after_s:g} s, has for {held_s:.0f} s"
