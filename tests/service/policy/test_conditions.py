from __future__ import annotations

from dataclasses import replace

import pytest
from policies import strict_laptop

from service.policy.policy import Unknown
from service.policy.time_windows import DAYS, Window
from storage.records.jobs import Blocker

LAPTOP = strict_laptop()


@pytest.mark.parametrize(
    ("signals", "changes", "blocker"),
    [
        ({"on_ac_power": False}, {}, ("power", "on battery power, needs AC power")),
        (
            {"battery_percent": 43.0},
            {"min_battery_percent": 40.0, "resume_battery_percent": 60.0},
            ("battery", "battery at 43 %, needs 60 % to resume (stops below 40 %)"),
        ),
        ({"battery_saver": True}, {}, ("battery_saver", "battery saver is on, needs it off")),
        (
            {"user_idle_s": 90.0},
            {"require_idle": True},
            (
                "user_idle",
                "the device was used 1.5 minutes ago, needs 5 minutes without input",
            ),
        ),
        (
            {"foreign_cpu_percent": 31.24},
            {},
            ("foreign_cpu", "other programs use 31.2 % of the processors, the limit is 25 %"),
        ),
        (
            {"memory_pressure_percent": 12.0},
            {},
            (
                "memory_pressure",
                "programs wait for memory 12 % of the time, the limit is 10 %",
            ),
        ),
        (
            {"temperature_c": 81.5},
            {},
            (
                "temperature",
                "hottest sensor at 81.5 °C, needs 70 °C to resume (stops above 80 °C)",
            ),
        ),
        (
            {"available_memory_bytes": 200 * 2**20},
            {},
            (
                "memory",
                "200 MiB memory available, needs 512 MiB to resume (stops below 256 MiB)",
            ),
        ),
        (
            {"free_disk_bytes": 300 * 2**20},
            {},
            (
                "disk",
                "300 MiB free where the data lies, needs 1.0 GiB to resume (stops below 512 MiB)",
            ),
        ),
        (
            {},
            {"windows": (Window(("mon",), "22:00", "06:00"),)},
            ("window", "it is Mon 12:00, the next window opens Mon 22:00"),
        ),
        (
            {"running_processes": ("steam", "zoom")},
            {"blocking_processes": ("steam", "zoom", "obs")},
            ("processes", "running now: steam, zoom; must end first"),
        ),
    ],
)
def test_each_condition_blocks_with_its_number_and_its_limit(verdict, signals, changes, blocker):
    given_verdict = verdict(signals, policy=replace(LAPTOP, **changes))
    assert not given_verdict.eligible
    assert given_verdict.blocked_by == (Blocker(*blocker),)


def test_the_minutes_of_a_day_are_limited(verdict):
    policy = replace(LAPTOP, max_minutes_per_day=120.0)
    assert verdict(policy=policy, trained_today_s=7199).eligible
    given_verdict = verdict(policy=policy, trained_today_s=7200)
    assert given_verdict.blocked_by == (
        Blocker("daily_limit", "trained 120 minutes today, the limit is 120"),
    )
    assert verdict(policy=policy, trained_today_s=0).eligible


def test_a_condition_that_is_switched_off_never_blocks(verdict):
    policy = replace(
        LAPTOP,
        require_ac_power=False,
        min_battery_percent=None,
        obey_battery_saver=False,
        max_foreign_cpu_percent=None,
        max_memory_pressure_percent=None,
        max_io_pressure_percent=None,
        max_temperature_c=None,
        min_free_memory_bytes=None,
        min_free_disk_bytes=None,
    )
    nothing = dict.fromkeys(
        (
            "on_ac_power",
            "battery_percent",
            "battery_saver",
            "foreign_cpu_percent",
            "memory_pressure_percent",
            "io_pressure_percent",
            "temperature_c",
            "available_memory_bytes",
            "free_disk_bytes",
        )
    )
    assert verdict(nothing, policy=policy).eligible


RULES = {
    "on_ac_power": "power",
    "battery_percent": "battery",
    "battery_saver": "battery_saver",
    "user_idle_s": "user_idle",
    "foreign_cpu_percent": "foreign_cpu",
    "io_pressure_percent": "pressure",
    "temperature_c": "temperature",
    "available_memory_bytes": "memory",
    "free_disk_bytes": "disk",
    "running_processes": "processes",
}


@pytest.mark.parametrize(("signal", "rule"), RULES.items())
def test_an_unknown_signal_means_what_the_policy_says(verdict, signal, rule):
    base = replace(LAPTOP, require_idle=True, blocking_processes=("steam",))
    blocks = replace(base, unknown=Unknown(**dict.fromkeys(RULES.values(), "block")))
    allows = replace(base, unknown=Unknown(**dict.fromkeys(RULES.values(), "allow")))
    given_verdict = verdict({signal: None}, policy=blocks)
    (blocker,) = given_verdict.blocked_by
    assert blocker.detail == (f"{signal} is unknown (the sensor broke); unknown.{rule} is block")
    assert verdict({signal: None}, policy=allows).eligible


def test_a_key_that_was_seen_outweighs_sessions_that_give_no_sign(verdict):
    policy = replace(LAPTOP, require_idle=True, unknown=replace(LAPTOP.unknown, user_idle="allow"))
    signals = {"user_idle_s": None, "last_input_s": 60.0}
    assert verdict(signals, policy=policy).conditions == ("user_idle",)
    assert verdict({**signals, "last_input_s": 301.0}, policy=policy).eligible


def test_without_a_local_time_no_window_is_open(verdict):
    policy = replace(LAPTOP, windows=(Window(DAYS, "00:00", "24:00"),))
    assert verdict(policy=policy).eligible
    assert verdict({"local_time": None}, policy=policy, after_s=31).conditions == ("window",)
