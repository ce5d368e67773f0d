from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from service.policy.time_windows import DAYS, Window, is_open, next_opening

BERLIN = ZoneInfo("Europe/Berlin")
NIGHT = Window(days=("fri",), start="22:00", end="06:00")
WORK = Window(days=("mon", "tue"), start="09:00", end="17:00")


def at(text):
    return datetime.fromisoformat(text)


def open_minutes(window, day, zone=BERLIN):
    """Minutes of absolute time that a window is open from noon of a day to the next."""
    start = datetime.fromisoformat(f"{day} 12:00").replace(tzinfo=zone).astimezone(timezone.utc)
    moments = (start + timedelta(minutes=minute) for minute in range(24 * 60))
    return sum(window.holds(moment.astimezone(zone)) for moment in moments)


@pytest.mark.parametrize(
    ("moment", "holds"),
    [
        ("2026-03-02 08:59", False),  # Monday
        ("2026-03-02 09:00", True),
        ("2026-03-02 16:59:59", True),
        ("2026-03-02 17:00", False),
        ("2026-03-03 12:00", True),
        ("2026-03-04 12:00", False),
    ],
)
def test_a_window_holds_from_its_start_to_before_its_end_on_its_days(moment, holds):
    assert WORK.holds(at(moment)) is holds


@pytest.mark.parametrize(
    ("moment", "holds"),
    [
        ("2026-03-06 05:00", False),  # Friday's early morning belongs to Thursday's night
        ("2026-03-06 21:59", False),
        ("2026-03-06 22:00", True),
        ("2026-03-07 00:00", True),
        ("2026-03-07 05:59", True),
        ("2026-03-07 06:00", False),
        ("2026-03-07 23:00", False),
    ],
)
def test_a_window_over_midnight_belongs_to_the_day_on_which_it_starts(moment, holds):
    assert NIGHT.holds(at(moment)) is holds


def test_sundays_night_reaches_into_monday():
    night = Window(days=("sun",), start="22:00", end="06:00")
    assert night.holds(at("2026-03-02 03:00"))


def test_without_windows_it_is_always_open():
    assert is_open((), at("2026-03-02 03:00"))


@pytest.mark.parametrize(
    ("day", "minutes"), [("2026-03-27", 480), ("2026-03-28", 420), ("2026-10-24", 540)]
)
def test_a_night_is_an_hour_shorter_or_longer_when_the_clocks_change(day, minutes):
    every_night = Window(days=DAYS, start="22:00", end="06:00")
    assert open_minutes(every_night, day) == minutes


@pytest.mark.parametrize(
    ("day", "minutes"), [("2026-03-27", 60), ("2026-03-28", 0), ("2026-10-24", 120)]
)
def test_the_skipped_hour_is_missing_and_the_repeated_hour_counts_twice(day, minutes):
    hour = Window(days=DAYS, start="02:00", end="03:00")
    assert open_minutes(hour, day) == minutes


@pytest.mark.parametrize(
    ("moment", "opens"),
    [
        ("2026-03-02 18:00", "2026-03-03 09:00"),
        ("2026-03-03 18:00", "2026-03-06 22:00"),
        ("2026-03-07 07:00", "2026-03-09 09:00"),
    ],
)
def test_the_next_opening_is_the_first_start_of_any_window(moment, opens):
    assert next_opening((WORK, NIGHT), at(moment)) == at(opens)


def clock_time(minute):
    return f"{minute // 60:02}:{minute % 60:02}"


windows = st.builds(
    lambda days, span: Window(days, *map(clock_time, span)),
    st.lists(st.sampled_from(DAYS), min_size=1, unique=True).map(tuple),
    st.tuples(st.integers(0, 1439), st.integers(1, 1440)).filter(lambda span: span[0] != span[1]),
)
moments = st.datetimes(datetime(2026, 1, 1), datetime(2026, 12, 31))


@given(windows, moments)
def test_a_window_holds_at_its_next_start(window, moment):
    opening = window.next_start(moment)
    assert moment < opening <= moment + timedelta(days=8)
    assert DAYS[opening.weekday()] in window.days
    assert window.holds(opening)


def test_a_window_that_ends_at_midnight_ends_at_24_00():
    assert Window(("mon",), "22:00", "00:00") == Window(("mon",), "22:00", "24:00")
