from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from policies import strict_laptop

from service.device.reading import Moment, Reading, Signals
from service.policy.judge import Judge
from service.policy.time_windows import Window
from storage.records.jobs import Blocker

LAPTOP = strict_laptop()
GIB = 2**30


def test_a_calm_device_may_train_at_the_first_look(verdict):
    given_verdict = verdict()
    assert given_verdict.eligible
    assert given_verdict.blocked_by == ()


def test_everything_that_blocks_is_told_at_once(verdict):
    given_verdict = verdict(
        {"on_ac_power": False, "battery_percent": 10.0, "temperature_c": 99.0},
        paused=True,
        snoozed_until=datetime(2026, 3, 2, 13, 0, tzinfo=timezone.utc),
    )
    assert given_verdict.conditions == ("paused", "snoozed", "power", "battery", "temperature")


def test_a_battery_stops_below_one_level_and_resumes_at_another(verdict):
    levels = [90, 30, 29, 30, 49, 50, 31]
    blocked = [not verdict({"battery_percent": float(level)}).eligible for level in levels]
    assert blocked == [False, False, True, True, True, False, False]


def test_between_the_levels_a_fresh_start_waits_for_the_resume_level(verdict):
    assert verdict({"battery_percent": 40.0}).conditions == ("battery",)


def test_a_hot_device_resumes_when_it_has_cooled(verdict):
    degrees = [60, 80, 81, 75, 71, 70, 79]
    blocked = [not verdict({"temperature_c": float(celsius)}).eligible for celsius in degrees]
    assert blocked == [False, False, True, True, True, False, False]


def test_a_device_without_a_battery_has_no_battery_to_wait_for(verdict):
    assert verdict({"battery_present": False, "battery_percent": None}).eligible


def test_unplugging_blocks_at_once_and_plugging_in_settles_first(verdict):
    assert verdict().eligible
    assert verdict({"on_ac_power": False}).conditions == ("power",)
    assert verdict().blocked_by == (
        Blocker("power", "on AC power; must stay so for 15 s, has for 0 s"),
    )
    assert not verdict(after_s=14.9).eligible
    assert verdict(after_s=0.2).eligible


def test_a_loose_plug_does_not_flap(verdict):
    verdict()
    plugged = [False, True] * 20
    states = [verdict({"on_ac_power": on_ac}).eligible for on_ac in plugged]
    assert not any(states)


def test_a_burst_of_load_within_the_grace_is_forgiven(verdict):
    verdict()
    for _ in range(20):
        assert verdict({"foreign_cpu_percent": 99.0}, after_s=4).eligible
        assert verdict({"foreign_cpu_percent": 99.0}, after_s=5).eligible
        assert verdict(after_s=5).eligible


def test_load_beyond_the_grace_blocks_until_it_has_settled(verdict):
    verdict()
    assert verdict({"foreign_cpu_percent": 99.0}).eligible
    assert not verdict({"foreign_cpu_percent": 99.0}, after_s=10).eligible
    assert not verdict(after_s=5).eligible
    assert not verdict(after_s=14).eligible
    assert verdict(after_s=1).eligible


def test_one_failed_reading_moves_no_verdict(verdict):
    policy = replace(LAPTOP, unknown=replace(LAPTOP.unknown, temperature="block"))
    assert verdict(policy=policy).eligible
    assert verdict({"temperature_c": None}, policy=policy, after_s=29).eligible
    assert not verdict({"temperature_c": None}, policy=policy, after_s=2).eligible


def test_somebody_who_gives_no_sign_is_never_kept_for_idle(verdict):
    policy = replace(LAPTOP, require_idle=True)
    assert verdict(policy=policy).eligible
    assert verdict({"user_idle_s": None}, policy=policy).conditions == ("user_idle",)


def test_a_snooze_holds_until_its_end(verdict, clock):
    until = clock.now().wall + timedelta(minutes=30)
    given_verdict = verdict(snoozed_until=until, after_s=60)
    assert given_verdict.blocked_by == (Blocker("snoozed", "snoozed until Mon 12:30, 29 min more"),)
    assert verdict(snoozed_until=until, after_s=29 * 60).eligible


def test_a_snooze_that_is_taken_back_ends_at_once(verdict, clock):
    assert not verdict(snoozed_until=clock.now().wall + timedelta(hours=8)).eligible
    assert verdict().eligible


def test_a_snooze_is_over_in_the_morning_though_the_device_slept(verdict, clock):
    until = clock.now().wall + timedelta(hours=8)
    assert not verdict(snoozed_until=until).eligible
    clock.jump(8 * 3600)
    assert verdict(snoozed_until=until).eligible


def test_a_snooze_that_a_clock_set_a_year_ahead_is_over_after_a_restart(verdict, clock):
    assert verdict(snoozed_until=clock.now().wall + timedelta(days=366)).eligible


def test_a_clock_put_back_a_year_does_not_prolong_a_snooze(verdict, clock):
    until = clock.now().wall + timedelta(minutes=30)
    verdict(snoozed_until=until)
    clock.jump(-365 * 86400)
    assert "29 min more" in verdict(snoozed_until=until, after_s=60).blocked_by[0].detail
    assert verdict(snoozed_until=until, after_s=30 * 60).eligible


def test_a_job_in_spite_of_the_policy_heeds_people_alone(verdict, clock):
    bad = {"on_ac_power": False, "temperature_c": 99.0}
    assert not verdict(bad).eligible
    assert verdict(bad, ignore_policy=True).eligible
    assert verdict(bad, ignore_policy=True, paused=True).conditions == ("paused",)
    until = clock.now().wall + timedelta(hours=1)
    assert verdict(bad, ignore_policy=True, snoozed_until=until).conditions == ("snoozed",)


def test_asking_for_both_kinds_of_job_at_one_moment_changes_neither(verdict):
    bad = {"on_ac_power": False}
    first = verdict(bad)
    assert verdict(bad, ignore_policy=True, after_s=0).eligible
    assert verdict(bad, after_s=0) == first


def test_since_is_when_the_answer_last_changed(verdict, clock):
    began = verdict().since
    assert verdict(after_s=60).since == began
    stopped = verdict({"on_ac_power": False}, after_s=60)
    assert stopped.since == clock.now().wall
    assert verdict({"on_ac_power": False, "temperature_c": 99.0}).since == stopped.since


def test_since_is_never_in_the_future(verdict, clock):
    verdict()
    clock.jump(-86400)
    assert verdict().since == clock.now().wall


def test_after_a_sleep_what_was_pending_starts_anew(verdict, clock):
    verdict()
    verdict({"on_ac_power": False})
    assert not verdict(after_s=1).eligible
    clock.jump(8 * 3600)
    assert not verdict(after_s=14).eligible
    assert not verdict(after_s=14).eligible
    assert verdict(after_s=1).eligible


@pytest.mark.parametrize("jump_s", [-365 * 86400, -3600, 3600, 365 * 86400])
def test_a_clock_that_jumps_moves_no_verdict(verdict, clock, jump_s):
    verdict()
    clock.jump(jump_s)
    assert verdict().eligible
    verdict({"on_ac_power": False})
    clock.jump(jump_s)
    assert verdict({"on_ac_power": False}).conditions == ("power",)


def test_a_changed_time_zone_counts_at_the_next_look(verdict):
    policy = replace(LAPTOP, windows=(Window(("mon",), "20:00", "22:00"),))
    noon = datetime(2026, 3, 2, 12, 0, tzinfo=timezone.utc)
    assert not verdict({"local_time": noon}, policy=policy).eligible
    tokyo = noon.astimezone(ZoneInfo("Asia/Tokyo"))
    assert verdict({"local_time": tokyo}, policy=policy).eligible


def test_a_new_policy_keeps_what_was_observed(verdict):
    verdict({"on_ac_power": False})
    verdict()
    patient = replace(LAPTOP, settle_seconds=60.0)
    assert not verdict(policy=patient, after_s=50).eligible
    assert verdict(policy=patient, after_s=10).eligible


noise = st.lists(
    st.tuples(
        st.floats(0.1, 8.0),
        st.floats(0, 100),
        st.floats(0, 60),
        st.floats(-5000, 5000) | st.just(0.0),
    ),
    max_size=120,
)


@given(noise)
def test_load_and_pressure_never_flap_whatever_the_clock_does(observed):
    judge = Judge()
    wall, monotonic_s = datetime(2026, 3, 2, 12, 0, tzinfo=timezone.utc), 0.0
    moves, before = [], None
    for wait_s, cpu, io, jump_s in observed:
        monotonic_s += wait_s
        wall += timedelta(seconds=wait_s + jump_s)
        now = Moment(wall, monotonic_s)
        values = {
            "on_ac_power": True,
            "battery_present": False,
            "foreign_cpu_percent": cpu,
            "io_pressure_percent": io,
            "available_memory_bytes": 8 * GIB,
            "free_disk_bytes": 8 * GIB,
        }
        readings = {name: Reading(name, value, "", "", now) for name, value in values.items()}
        eligible = judge.judge(LAPTOP, Signals(readings), now).eligible
        if before is not None and eligible != before:
            moves.append((monotonic_s, eligible))
        before = eligible
    for (start_s, _), (end_s, eligible) in pairwise(moves):
        if eligible:
            assert end_s - start_s >= LAPTOP.settle_seconds - 1e-6
