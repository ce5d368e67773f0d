"""The rule of a trigger: what it waits for."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from service.errors import InvalidInput
from service.triggers.cron import check_cron
from service.triggers.zone import zone_of
from storage.errors import Problem
from storage.records.jobs import NewTrigger, Trigger
from storage.store import Store

KINDS = ("cron", "new_samples", "on_drift", "eligible_after")
UNUSABLE = (ArithmeticError, LookupError, TypeError, ValueError)
"""Raised by a rule that another version stored, or whose zone this device lacks."""


class Rule(Struct, frozen=True, kw_only=True):
    """One of KINDS, or at_most_every_hours, which also limits those.

    cron: five fields, in time_zone (None: the device's), late by up to jitter_seconds.
    new_samples: fires when this many have been labelled since it last fired. on_drift: fires when
    inputs have drifted from the training samples of `latest`. eligible_after: a local time of day
    such as `02:00`, for once a day, or an instant (RFC 3339), for once; it fires at the first
    moment after that when a job may train. at_most_every_hours: alone, fires that often.
    """

    cron: str | None = None
    time_zone: str | None = None
    jitter_seconds: float = 0.0
    new_samples: int | None = None
    on_drift: bool | None = None
    eligible_after: str | None = None
    at_most_every_hours: float | None = None

    @property
    def kind(self) -> str:
        """What fires it; the default for a trigger's name."""
        if self.cron is not None:
            return "cron"
        if self.new_samples is not None:
            return "samples"
        if self.on_drift:
            return "drift"
        return "eligible" if self.eligible_after is not None else "interval"

    @property
    def is_once(self) -> bool:
        """Whether it names an instant."""
        return self.eligible_after is not None and not _is_time_of_day(self.eligible_after)

    @property
    def awaited(self) -> Rule:
        """The fields that fire it, without those that only delay it."""
        hours = self.at_most_every_hours if self.kind == "interval" else None
        return replace(self, jitter_seconds=0.0, at_most_every_hours=hours)

    def to_dict(self) -> dict[str, Any]:
        """As JSON shows it; `Rule(**…)` reads it back."""
        return asdict(self)


def checked_rule(**fields: Any) -> Rule:
    """Raises InvalidInput with all errors."""
    rule = Rule(**fields)
    if wrong := list(problems(rule)):
        raise InvalidInput("the trigger is wrong", problems=wrong)
    return rule


def problems(rule: Rule) -> Iterator[Problem]:
    """All errors in a rule, each with its JSON pointer."""
    kinds = [name for name in KINDS if getattr(rule, name)]
    if len(kinds) > 1:
        yield Problem("", f"{' and '.join(kinds)} are two triggers; make one of each")
    if not kinds and rule.at_most_every_hours is None:
        yield Problem("", f"give {', '.join(KINDS)} or at_most_every_hours")
    if rule.cron is None and rule.jitter_seconds:
        yield Problem("/jitter_seconds", "belongs to cron, which is not given")
    if rule.time_zone is not None:
        try:
            zone_of(rule.time_zone)
        except ValueError as error:
            yield Problem("/time_zone", str(error))
    checks = (("cron", rule.cron, check_cron), ("eligible_after", rule.eligible_after, moment_of))
    for name, text, check in checks:
        try:
            if text is not None:
                check(text)
        except ValueError as error:
            yield Problem(f"/{name}", f"{text!r}: {error}")


def moment_of(text: str) -> datetime | tuple[int, int]:
    """The instant in UTC, or the hour and minute of every day. Raises ValueError."""
    try:
        if _is_time_of_day(text):
            clock = datetime.strptime(text, "%H:%M")
            return clock.hour, clock.minute
        instant = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ValueError("no time such as 20:00 or 2026-03-01T02:00:00+01:00") from None
    if instant.tzinfo is None:
        raise ValueError("an instant needs its offset from UTC, such as 2026-03-01T02:00:00+01:00")
    try:
        return instant.astimezone(timezone.utc)
    except OverflowError:
        raise ValueError("in UTC it is not in the years 1 to 9999") from None


def latest_moment(rule: Rule, now: datetime) -> tuple[datetime, datetime | None]:
    """For eligible_after, the last instant up to now and the next; an only one, and None. In UTC.

    A time of day that the clock repeats in autumn counts the first time.
    """
    assert rule.eligible_after is not None
    moment = moment_of(rule.eligible_after)
    if isinstance(moment, datetime):
        return moment, None
    local = now.astimezone(zone_of(rule.time_zone))
    today = local.replace(hour=moment[0], minute=moment[1], second=0, microsecond=0, fold=0)
    days = (today + timedelta(days=count) for count in (-1, 0, 1))
    before, between, after = (day.astimezone(timezone.utc) for day in days)
    return (before, between) if now < between else (between, after)


def _is_time_of_day(text: str) -> bool:
    return len(text) == len("02:00")


def change(store: Store, trigger: Trigger, new: NewTrigger) -> Trigger:
    """Replace the user's fields; firings due under another rule, or while off, are not made up for.

    trigger: as it was. Raises NotFound.
    """
    return store.triggers.update(trigger.id, new, anew=_begins_anew(trigger, new))


def _begins_anew(trigger: Trigger, new: NewTrigger) -> bool:
    """An instant occurs once, whether it passed while the trigger was on or off."""
    before, after = Rule(**trigger.rule), Rule(**new.rule)
    if before.awaited != after.awaited:
        return True
    return new.enabled and not trigger.enabled and not after.is_once
