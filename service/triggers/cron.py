"""Cron expressions by crontab(5), for APScheduler, which numbers weekdays differently."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta, timezone, tzinfo

from apscheduler.triggers.cron import CronTrigger

DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
FIELDS = ("minute", "hour", "day", "month", "day_of_week")
ALL_DAYS = (datetime(2000, 1, 1, tzinfo=timezone.utc), datetime(2001, 1, 1, tzinfo=timezone.utc))
"""A leap year: a date that does not occur in it never occurs."""


class CrontabTrigger(CronTrigger):  # type: ignore[misc]
    """Fires once, the first time, at a time that the clock repeats in autumn.

    in_both: fire each time, like an expression whose minutes or hours begin with `*`; cron(8).
    late_s: each firing is late by up to this, at random.
    """

    def __init__(self, fields: Mapping[str, str], zone: tzinfo, *, late_s: float) -> None:
        super().__init__(**fields, timezone=zone)
        self._in_both = "*" in (fields["minute"][0], fields["hour"][0])
        self._late_s = late_s

    def get_next_fire_time(self, previous: datetime | None, now: datetime) -> datetime | None:
        if previous is not None:  # not each that a sleep or a jump of the clock has missed
            now = max(now, previous + timedelta(microseconds=1))
        fire: datetime | None = super().get_next_fire_time(None, now)
        while fire is not None and fire.fold and not self._in_both:
            after = fire.astimezone(timezone.utc) + timedelta(seconds=1)
            fire = super().get_next_fire_time(None, after)
        moment = fire and fire.astimezone(timezone.utc)
        late: datetime | None = self._apply_jitter(moment, self._late_s, now)
        return late and late.astimezone(self.timezone)


def cron_trigger(expression: str, zone: tzinfo, *, jitter_s: float = 0.0) -> CrontabTrigger:
    """Five fields: minute, hour, day of month, month, day of week (0 and 7 are Sunday).

    jitter_s: each firing is late by up to this, at random. Raises ValueError.
    """
    values = expression.lower().split()
    if len(values) != len(FIELDS):
        raise ValueError(f"has {len(values)} fields; it takes five, such as 30 2 * * mon-fri")
    fields = dict(zip(FIELDS, values, strict=True))
    if fields["day"] != "*" and fields["day_of_week"] != "*":
        raise ValueError("takes a day of the month or days of the week, and * for the other")
    fields["day_of_week"] = _days(fields["day_of_week"])
    return CrontabTrigger(fields, zone, late_s=jitter_s)


def check_cron(expression: str) -> None:
    """Raises ValueError if it is not a cron expression, or never occurs."""
    first, end = ALL_DAYS
    trigger = cron_trigger(expression, timezone.utc)
    trigger.end_date = end
    if trigger.get_next_fire_time(None, first) is None:
        raise ValueError("never comes: none of its months has such a day")


def missed(expression: str, zone: tzinfo, *, after: datetime, until: datetime) -> bool:
    """Whether it should have fired in between, at least once."""
    first = cron_trigger(expression, zone).get_next_fire_time(None, after + timedelta(seconds=1))
    return first is not None and first <= until


def _days(field: str) -> str:
    """Days of the week by name, since APScheduler's 0 is Monday and its ranges end on Sunday."""
    if field == "*":
        return field
    chosen = [day for part in field.split(",") for day in _range(part)]
    return ",".join(dict.fromkeys(chosen))


def _range(part: str) -> list[str]:
    span, _, step = part.partition("/")
    low, _, high = span.partition("-")
    start, end = (0, 6) if low == "*" else (_day(low), _day(high or low))
    count = (end - start) % 7 + 1
    every = int(step) if step else 1
    if every < 1:
        raise ValueError(f"the step of {part!r} must be above 0")
    return [DAYS[(start + offset) % 7] for offset in range(0, count, every)]


def _day(text: str) -> int:
    if text in DAYS:
        return DAYS.index(text)
    if text.isdecimal() and int(text) <= 7:
        return int(text) % 7
    raise ValueError(f"{text!r} is no day of the week; they are 0 to 7 or {', '.join(DAYS)}")
