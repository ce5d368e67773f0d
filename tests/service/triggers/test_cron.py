from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from service.triggers.cron import cron_trigger, missed

UTC = timezone.utc
BERLIN = ZoneInfo("Europe/Berlin")
SUNDAY = datetime(2026, 3, 1, tzinfo=UTC)


def firings(expression, zone, *, start, count):
    trigger, now, found = cron_trigger(expression, zone), start, []
    for _ in range(count):
        now = trigger.get_next_fire_time(None, now.astimezone(UTC) + timedelta(seconds=1))
        found.append(now)
    return found


@pytest.mark.parametrize(
    ("field", "days"),
    [
        ("0", [6]),
        ("7", [6]),
        ("1", [0]),
        ("mon-fri", [0, 1, 2, 3, 4]),
        ("5-7", [4, 5, 6]),
        ("fri-mon", [4, 5, 6, 0]),
        ("0,3", [6, 2]),
        ("*/2", [6, 1, 3, 5]),
        ("1-5/2", [0, 2, 4]),
    ],
)
def test_days_of_the_week_are_crontabs(field, days):
    found = firings(f"0 0 * * {field}", UTC, start=SUNDAY - timedelta(days=1), count=7)
    assert {moment.weekday() for moment in found} == set(days)


@pytest.mark.parametrize(
    "expression",
    ["", "* * * *", "61 * * * *", "0 0 1 * mon", "0 0 * * 8", "0 0 * * sun/0", "@daily x y z w"],
)
def test_what_is_no_cron_expression_is_refused(expression):
    with pytest.raises(ValueError):  # noqa: PT011 - some of the words are APScheduler's
        cron_trigger(expression, UTC)


def test_a_time_that_is_skipped_fires_and_one_that_is_repeated_fires_once():
    spring = firings("30 2 * * *", BERLIN, start=datetime(2026, 3, 28, tzinfo=UTC), count=3)
    autumn = firings("30 2 * * *", BERLIN, start=datetime(2026, 10, 24, tzinfo=UTC), count=3)
    assert [moment.day for moment in spring] == [28, 29, 30]
    assert [(moment.day, moment.fold) for moment in autumn] == [(24, 0), (25, 0), (26, 0)]


@pytest.mark.parametrize(
    ("expression", "count"), [("30 * * * *", 2), ("*/20 2 * * *", 6), ("0,30 2 * * *", 2)]
)
def test_what_goes_by_elapsed_time_fires_in_both_of_the_repeated_hours(expression, count):
    first = datetime(2026, 10, 25, 0, 0, tzinfo=UTC)
    found = firings(expression, BERLIN, start=first - timedelta(seconds=1), count=count + 1)
    assert sum(moment.hour == 2 and moment.day == 25 for moment in found) == count


def test_a_delay_at_random_is_in_elapsed_time_and_fires_once():
    trigger = cron_trigger("59 2 * * *", BERLIN, jitter_s=3600)
    base, late = datetime(2026, 10, 25, 0, 59, tzinfo=UTC), set()
    for _ in range(50):
        first = trigger.get_next_fire_time(None, base - timedelta(hours=1))
        second = trigger.get_next_fire_time(first, first.astimezone(UTC) + timedelta(seconds=1))
        late.add((first.astimezone(UTC) - base) // timedelta(minutes=1))
        assert second.day == 26
    assert min(late) >= 0
    assert max(late) < 60


def test_what_was_missed_many_times_was_missed():
    after = datetime(2026, 3, 1, 12, tzinfo=UTC)
    assert missed("0 3 * * *", UTC, after=after, until=after + timedelta(days=9))
    assert not missed("0 3 * * *", UTC, after=after, until=after + timedelta(hours=14))


def test_a_jump_of_the_clock_fires_once():
    trigger, now = cron_trigger("* * * * *", UTC), datetime(2026, 11, 27, 0, 1, 30, tzinfo=UTC)
    assert trigger.get_next_fire_time(SUNDAY.replace(year=1970), now) == now + timedelta(seconds=30)
    at = now.replace(second=0)
    assert trigger.get_next_fire_time(at, at) == at + timedelta(minutes=1)
