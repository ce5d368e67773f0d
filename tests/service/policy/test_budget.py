from __future__ import annotations

import time

import pytest

from service.policy.observer import DayBudget


@pytest.fixture(autouse=True)
def utc(monkeypatch):
    """The device is in Greenwich."""
    if not hasattr(time, "tzset"):
        pytest.skip("this platform has no tzset")
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


def test_only_training_counts(store, clock):
    budget = DayBudget(store.policy)
    assert budget.count(clock.now(), training=False) == 0
    assert budget.count(clock.advance(100), training=True) == 0
    assert budget.count(clock.advance(10), training=True) == 10
    assert budget.count(clock.advance(10), training=False) == 20
    assert budget.count(clock.advance(500), training=False) == 20


def test_what_was_counted_outlives_a_restart(store, clock):
    first = DayBudget(store.policy)
    first.count(clock.now(), training=True)
    first.count(clock.advance(90), training=True)
    assert first.is_due
    first.write()
    assert DayBudget(store.policy).count(clock.now(), training=False) == 90


def test_a_new_day_begins_with_nothing_and_the_old_one_is_kept(store, clock):
    budget = DayBudget(store.policy)
    yesterday = clock.now().wall.date()
    budget.count(clock.now(), training=True)
    budget.count(clock.advance(30), training=True)
    assert budget.count(clock.advance(86_400), training=False) == 86_400
    budget.write()
    assert store.policy.trained_s(yesterday) == 30


def test_a_clock_that_jumps_adds_nothing(store, clock):
    budget = DayBudget(store.policy)
    budget.count(clock.now(), training=True)
    clock.jump(3600)
    assert budget.count(clock.advance(5), training=True) == 5


def test_another_time_zone_is_another_day(store, clock, monkeypatch):
    budget = DayBudget(store.policy)
    budget.count(clock.now(), training=True)
    assert budget.count(clock.advance(20), training=False) == 20
    monkeypatch.setenv("TZ", "Pacific/Kiritimati")
    time.tzset()
    assert budget.count(clock.advance(1), training=False) == 0
