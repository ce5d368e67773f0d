from __future__ import annotations

from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import pytest

from service.errors import InvalidInput
from service.triggers.due import is_due
from service.triggers.rule import Rule, checked_rule
from service.triggers.schedule import next_time
from storage.records.jobs import Trigger

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=timezone.utc)
HOUR = timedelta(hours=1)


def trigger(**changes):
    fields = {
        "id": 1,
        "model_id": 1,
        "model": "m",
        "name": "t",
        "rule": {},
        "hyperparameters": {},
        "priority": 0,
        "enabled": True,
        "created_at": NOON,
        "labelled": 100,
        "tried_at": None,
        "fired_at": None,
        "job_id": None,
        "outcome": "",
    }
    return Trigger(**{**fields, **changes})


def due(rule, *, now, labelled=100, eligible=True, **changes):
    return is_due(trigger(**changes), rule, now=now, labelled=labelled, eligible=eligible)


@pytest.mark.parametrize(
    ("rule", "changes", "expected"),
    [
        ({"cron": "30 14 * * *", "time_zone": "UTC"}, {}, NOON + 2.5 * HOUR),
        ({"cron": "30 14 * * *", "time_zone": "UTC"}, {"enabled": False}, None),
        ({"cron": "30 14 * * *", "time_zone": "Nowhere/Here"}, {}, None),
        ({"eligible_after": "13:00", "time_zone": "UTC"}, {}, NOON + HOUR),
        ({"at_most_every_hours": 5}, {}, NOON + 5 * HOUR),
        ({"at_most_every_hours": 5}, {"fired_at": NOON - 9 * HOUR, "outcome": "asked"}, NOON),
        ({"new_samples": 10}, {}, None),
    ],
)
def test_the_next_time_follows_from_the_rule(rule, changes, expected):
    assert next_time(trigger(rule=rule, **changes), now=NOON) == expected


def test_new_samples_are_counted_from_the_last_firing():
    rule = Rule(new_samples=10)
    assert not due(rule, now=NOON, labelled=109)
    assert due(rule, now=NOON, labelled=110)
    assert not is_due(trigger(labelled=105), rule, now=NOON, labelled=110, eligible=True)


def test_the_limit_of_hours_holds_back_what_has_fired():
    rule = Rule(new_samples=10, at_most_every_hours=6)
    assert due(rule, now=NOON, labelled=110)
    assert not due(rule, now=NOON + 5 * HOUR, labelled=110, fired_at=NOON)
    assert due(rule, now=NOON + 6 * HOUR, labelled=110, fired_at=NOON)


def test_an_interval_begins_with_the_trigger():
    rule = Rule(at_most_every_hours=2)
    assert not due(rule, now=NOON + HOUR)
    assert due(rule, now=NOON + 2 * HOUR)
    assert not due(rule, now=NOON + 3 * HOUR, fired_at=NOON + 2 * HOUR)


def test_a_clock_put_back_a_year_does_not_silence_an_interval():
    rule = Rule(at_most_every_hours=2)
    assert due(rule, now=NOON - timedelta(days=365), fired_at=NOON)


def test_cron_leaves_its_time_to_the_scheduler_and_makes_up_for_what_was_missed():
    rule = Rule(cron="0 13 * * *", time_zone="UTC")
    assert not due(rule, now=NOON + HOUR + timedelta(seconds=30))
    assert due(rule, now=NOON + HOUR + timedelta(seconds=61))
    assert due(rule, now=NOON + timedelta(days=9))
    assert not due(rule, now=NOON + 2 * HOUR, tried_at=NOON + HOUR)


def test_the_first_eligible_moment_of_each_day():
    rule = Rule(eligible_after="13:00", time_zone="UTC")
    one = NOON + HOUR
    assert not due(rule, now=NOON + timedelta(minutes=59))
    assert not due(rule, now=one, eligible=False)
    assert due(rule, now=one)
    assert due(rule, now=one + 9 * HOUR)
    assert not due(rule, now=one + 9 * HOUR, tried_at=one)
    assert due(rule, now=one + 24 * HOUR, tried_at=one)


@pytest.mark.parametrize(
    ("zone", "text"),
    [
        ("Europe/Berlin", "02:30"),
        ("America/New_York", "01:45"),
        ("Australia/Lord_Howe", "01:45"),
    ],
)
def test_a_day_that_repeats_a_time_has_one_eligible_moment(zone, text):
    rule, days = Rule(eligible_after=text, time_zone=zone), 40
    for begin in (datetime(2026, month, 1, tzinfo=timezone.utc) for month in (3, 10)):
        fires, tried = [], begin
        for count in range(0, days * 24 * 60, 15):
            now = begin + timedelta(minutes=count)
            if due(rule, now=now, tried_at=tried, outcome="asked for job 1"):
                tried = now
                fires.append(now.astimezone(ZoneInfo(zone)).date())
        assert len(fires) == len(set(fires))
        assert days - 1 <= len(fires) <= days


AHEAD = NOON + timedelta(days=400)


@pytest.mark.parametrize(
    "rule",
    [
        Rule(eligible_after="11:00", time_zone="UTC"),
        Rule(cron="0 11 * * *", time_zone="UTC"),
        Rule(at_most_every_hours=5),
    ],
    ids=lambda rule: rule.kind,
)
@pytest.mark.parametrize("changes", [{"tried_at": AHEAD, "outcome": "asked"}, {}])
def test_a_clock_that_ran_ahead_silences_no_trigger(rule, changes):
    ahead = {"created_at": AHEAD, "fired_at": changes.get("tried_at"), **changes}
    assert due(rule, now=NOON, **ahead)
    now = {**ahead, "tried_at": NOON, "fired_at": NOON, "outcome": "asked"}
    assert not due(rule, now=NOON + HOUR, **now)
    assert due(rule, now=NOON + 25 * HOUR, **now)


def test_a_clock_that_is_put_back_by_seconds_makes_nothing_due_again():
    fired = {"tried_at": NOON, "fired_at": NOON, "outcome": "asked"}
    for rule in (Rule(eligible_after="11:00", time_zone="UTC"), Rule(cron="0 11 * * *")):
        assert not due(rule, now=NOON - timedelta(seconds=9), **fired)


def test_drift_after_a_clock_that_ran_ahead_is_due_once():
    rule = Rule(on_drift=True)

    def drifts(at, *, fired_at):
        one = trigger(fired_at=fired_at, tried_at=fired_at, outcome="asked")
        return is_due(one, rule, now=NOON, labelled=0, eligible=True, drifted=at)

    assert drifts(NOON - HOUR, fired_at=AHEAD)
    assert not drifts(NOON - HOUR, fired_at=NOON)
    assert not drifts(AHEAD, fired_at=NOON)


def test_an_instant_comes_once():
    rule = Rule(eligible_after="2026-03-02T14:00:00+01:00")
    assert not due(rule, now=NOON + timedelta(minutes=59))
    assert due(rule, now=NOON + HOUR)
    assert not due(rule, now=NOON + 48 * HOUR, tried_at=NOON + HOUR, outcome="asked for job 1")


@pytest.mark.parametrize(
    ("fields", "pointers"),
    [
        ({}, [""]),
        ({"cron": "0 3 * * *", "new_samples": 5}, [""]),
        ({"cron": "nonsense"}, ["/cron"]),
        ({"cron": "0 3 * * *", "time_zone": "Mars/Base"}, ["/time_zone"]),
        ({"eligible_after": "25:00"}, ["/eligible_after"]),
        ({"eligible_after": "2026-03-02T14:00:00"}, ["/eligible_after"]),
        ({"eligible_after": "9999-12-31T23:59:59-01:00"}, ["/eligible_after"]),
        ({"eligible_after": "0001-01-01T00:00:00+01:00"}, ["/eligible_after"]),
        ({"cron": "0 0 31 2 *"}, ["/cron"]),
        ({"cron": "0 0 31 2,4,6 *"}, ["/cron"]),
        ({"new_samples": 5, "jitter_seconds": 3.0}, ["/jitter_seconds"]),
    ],
)
def test_a_rule_that_cannot_work_is_refused_with_its_place(fields, pointers):
    with pytest.raises(InvalidInput) as caught:
        checked_rule(**fields)
    assert [problem.pointer for problem in caught.value.problems] == pointers


def test_a_time_that_is_none_is_told_in_plain_words():
    with pytest.raises(InvalidInput) as caught:
        checked_rule(eligible_after="25:00")
    assert caught.value.problems[0].detail.startswith("'25:00': no time such as 20:00 or 2026-")


def test_a_leap_day_comes():
    assert checked_rule(cron="0 0 29 2 *").kind == "cron"
