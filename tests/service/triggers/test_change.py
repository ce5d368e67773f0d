"""Triggers that are changed or switched on: what counts for them then, and instants."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from service.triggers.rule import Rule
from storage.records.jobs import Blocker

HOUR_S = 3600
DAY_S = 24 * HOUR_S
NIGHTLY = Rule(cron="0 3 * * *", time_zone="UTC")
LOTS = Rule(new_samples=40)


def instant(clock, hours):
    return Rule(eligible_after=(clock.wall + timedelta(hours=hours)).isoformat())


@pytest.mark.parametrize(
    "rule",
    [
        Rule(cron="0 11 * * *", time_zone="UTC"),
        Rule(eligible_after="11:30", time_zone="UTC"),
        LOTS,
        Rule(at_most_every_hours=24),
    ],
    ids=lambda rule: rule.kind,
)
def test_a_changed_rule_waits_from_its_change(scene, rule):
    trigger = scene.add(NIGHTLY)
    scene.clock.advance(15 * HOUR_S)
    scene.asking.fire(trigger.id)
    assert scene.causes() == ["cron"]
    scene.clock.advance(33 * HOUR_S)
    scene.upload(50)
    changed = scene.edit(trigger, rule)
    scene.asking.check()
    assert scene.causes() == ["cron"]
    assert (changed.labelled, changed.tried_at, changed.outcome) == (55, scene.clock.wall, "")
    scene.clock.advance(DAY_S)
    scene.upload(40)
    scene.asking.check()
    assert scene.causes() == ["cron", "cron"]


@pytest.mark.parametrize(
    "rule",
    [NIGHTLY, Rule(eligible_after="02:00", time_zone="UTC"), LOTS, Rule(at_most_every_hours=24)],
    ids=lambda rule: rule.kind,
)
def test_what_is_switched_on_again_waits_from_then(scene, rule):
    trigger = scene.add(rule)
    scene.edit(trigger, rule, enabled=False)
    scene.clock.advance(3 * DAY_S)
    scene.upload(50)
    scene.edit(trigger, rule, enabled=True)
    scene.asking.check()
    assert scene.causes() == []
    scene.clock.advance(DAY_S)
    scene.upload(40)
    scene.asking.check()
    assert scene.causes() == [rule.kind]


@pytest.mark.parametrize(
    ("rule", "later"),
    [
        (NIGHTLY, NIGHTLY),
        (NIGHTLY, replace(NIGHTLY, at_most_every_hours=2.0)),
        (NIGHTLY, replace(NIGHTLY, jitter_seconds=60.0)),
        (LOTS, replace(LOTS, at_most_every_hours=2.0)),
        (Rule(at_most_every_hours=24), Rule(at_most_every_hours=24)),
    ],
)
def test_a_firing_that_is_due_outlives_a_change_of_anything_else(scene, rule, later):
    trigger = scene.add(rule)
    scene.clock.advance(3 * DAY_S)
    scene.upload(40)
    scene.edit(trigger, later, name="n", priority=7, hyperparameters={"epochs": 2})
    scene.asking.check()
    assert scene.causes() == ["n"]


def test_an_instant_that_is_over_comes_once(scene):
    past = instant(scene.clock, -24)
    scene.look.state["blocked_by"] = (Blocker("power", "on battery power"),)
    trigger = scene.add(past)
    scene.asking.check()
    assert scene.causes() == []
    scene.look.state["blocked_by"] = ()
    for enabled in (True, False, True):
        scene.edit(trigger, past, enabled=enabled)
        scene.clock.advance(HOUR_S)
        scene.asking.check()
        assert scene.causes() == ["eligible"]


def test_an_instant_that_passed_while_off_comes_once_it_is_on(scene):
    soon = instant(scene.clock, 1)
    trigger = scene.add(soon, enabled=False)
    scene.clock.advance(2 * HOUR_S)
    scene.edit(trigger, soon, enabled=True)
    scene.asking.check()
    assert scene.causes() == ["eligible"]


def test_one_instant_after_another_comes_once_each(scene):
    trigger = scene.add(instant(scene.clock, -2))
    scene.asking.check()
    assert scene.causes() == ["eligible"]
    scene.edit(trigger, instant(scene.clock, -1))
    for _ in range(2):
        scene.asking.check()
        assert scene.causes() == ["eligible", "eligible"]
