"""What another policy would say, against the judge that would come to it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from policies import strict_laptop

from service.policy.forecast import forecast
from service.policy.judge import Judge
from service.policy.observer import Observation
from storage.records.jobs import StoredPolicy

PROCFS = Path("/proc")
ASKED = StoredPolicy(settings=None, snoozed_until=None, paused=False)


@pytest.fixture
def look(device, clock):
    """A look by a judge that has seen the device for a while."""

    def give(policy, *, paused=False, seconds=120, before=None, **signals):
        judge = Judge()
        judge.judge(policy, device(clock.now(), **(before or signals)), clock.now(), paused=paused)
        for _ in range(seconds):
            now = clock.advance(1)
            snapshot = device(now, **signals)
            verdict, in_spite = (
                judge.judge(policy, snapshot, now, paused=paused, ignore_policy=ignore)
                for ignore in (False, True)
            )
        return Observation(
            now, snapshot, policy, verdict, in_spite, 0.0, ASKED, clock_changed=False
        )

    return give


def conditions(look, policy):
    found = forecast(look, policy, procfs=PROCFS)
    assert found.eligible == (not found.blocked_by)
    return [blocker.condition for blocker in found.blocked_by]


@pytest.mark.parametrize("battery", [20.0, 45.0, 90.0])
def test_the_policy_in_force_comes_to_the_verdict_in_force(look, battery):
    for before in (20.0, 90.0):
        policy = strict_laptop()
        seen = look(policy, before={"battery_percent": before}, battery_percent=battery)
        assert conditions(seen, policy) == list(seen.verdict.conditions), before


def test_between_two_levels_a_condition_that_is_new_blocks(look):
    policy = replace(strict_laptop(), min_battery_percent=None, resume_battery_percent=None)
    wanted = replace(policy, min_battery_percent=30.0, resume_battery_percent=50.0)
    assert conditions(look(policy, battery_percent=40.0), wanted) == ["battery"]
    assert conditions(look(policy, battery_percent=50.0), wanted) == []


def test_delays_count_as_passed(look):
    strict = replace(strict_laptop(), max_foreign_cpu_percent=10.0, grace_seconds=3600.0)
    mild = replace(strict, max_foreign_cpu_percent=90.0)
    seen = look(mild, foreign_cpu_percent=60.0)
    assert conditions(seen, strict) == ["foreign_cpu"]
    seen = look(strict, before={"foreign_cpu_percent": 60.0}, seconds=1, foreign_cpu_percent=60.0)
    assert conditions(seen, mild) == []


def test_what_a_person_asked_for_holds_under_every_policy(look):
    seen = look(strict_laptop(), paused=True)
    assert conditions(seen, strict_laptop()) == ["paused"]
