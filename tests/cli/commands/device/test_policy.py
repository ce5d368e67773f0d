from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest


@pytest.fixture(autouse=True)
def taken_back(honed: Callable[..., Any]) -> Iterator[None]:
    """The daemon serves other tests too."""
    yield
    for command in (("snooze", "--off"), ("resume",), ("policy", "reset")):
        assert honed(*command).returncode == 0


def test_settings_are_changed_by_name_and_shown(honed: Callable[..., Any]) -> None:
    done = honed(
        "policy",
        "set",
        "max_minutes_per_day=90",
        "require_idle=false",
        'blocking_processes=["zoom"]',
        "unknown.disk=allow",
    )
    shown = json.loads(honed("policy", "show", "--json").stdout)
    assert done.returncode == 0, done.stderr
    assert ["max_minutes_per_day", "90.0"] in [line.split() for line in done.stdout.splitlines()]
    assert (shown["max_minutes_per_day"], shown["blocking_processes"]) == (90, ["zoom"])
    assert shown["unknown"]["disk"] == "allow"
    honed("policy", "reset")
    lines = [line.split() for line in honed("policy", "show").stdout.splitlines()]
    assert ["max_minutes_per_day", "null"] in lines


def test_what_is_wrong_is_told_with_its_place(honed: Callable[..., Any]) -> None:
    done = honed("policy", "set", "nice=77", "windws=[]")
    assert done.returncode == 1
    assert "/nice" in done.stderr
    assert "/windws" in done.stderr
    assert honed("policy", "set", "nice").returncode == 2


def test_the_examples_of_the_help_work(honed: Callable[..., Any]) -> None:
    text = " ".join(honed("policy", "set", "--help").stdout.split())
    examples = re.findall(r"(?:\w+\.)?\w+=[\w.]+\w(?: \w+=\w+)?", text.replace("NAME=VALUE", ""))
    assert len(examples) == 3, examples
    for example in examples:
        done = honed("policy", "set", *example.split())
        assert done.returncode == 0, done.stderr


def test_a_level_to_stop_alone_is_refused_with_what_else_to_set(
    honed: Callable[..., Any],
) -> None:
    honed("policy", "set", "min_battery_percent=null", "resume_battery_percent=null")
    alone = honed("policy", "set", "min_battery_percent=40")
    large = honed("policy", "set", f"min_free_disk_bytes={2**45}")
    assert (alone.returncode, large.returncode) == (1, 1)
    place = "/resume_battery_percent: must be 40 or above, not null, since min_battery_percent"
    assert place in alone.stderr
    assert f"/resume_free_disk_bytes: must be {2**45} or above" in large.stderr


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (("snooze", 30), "snoozed until"),
        (("snooze", "--morning"), "snoozed until"),
        (("pause",), "paused by hand"),
    ],
)
def test_status_says_in_one_line_why_nothing_trains(
    honed: Callable[..., Any], command: tuple[Any, ...], reason: str
) -> None:
    assert any(
        line.split()[:2] == ["trains", "yes,"] for line in honed("status").stdout.splitlines()
    )
    told = honed(*command).stdout
    (line,) = [line for line in honed("status").stdout.splitlines() if line.startswith("trains")]
    assert told.startswith("not now: ")
    assert reason in told
    assert reason in line


@pytest.mark.parametrize(
    "twice",
    [
        ("nice=5", "nice=6"),
        ("unknown=block", "unknown.power=allow"),
        ("unknown.power=allow", "unknown={}"),
        ("unknown.power=allow", "unknown.power=block"),
    ],
)
def test_a_setting_that_is_given_twice_is_wrong_usage(
    honed: Callable[..., Any], twice: tuple[str, str]
) -> None:
    done = honed("policy", "set", *twice)
    assert done.returncode == 2
    assert "a second time" in done.stderr


@pytest.mark.parametrize("wrong", [(), (5, "--off"), ("--morning", "--off"), ("nan",), ("inf",)])
def test_a_snooze_takes_one_end(honed: Callable[..., Any], wrong: tuple[Any, ...]) -> None:
    assert honed("snooze", *wrong).returncode == 2


def test_a_job_runs_now_in_spite_of_the_policy(
    honed: Callable[..., Any], add_model: Callable[..., str]
) -> None:
    honed("policy", "set", "require_idle=true", "unknown.user_idle=block")
    model = add_model(samples=50)
    done = honed("train", model, "--max-steps", 1, "--now", "--watch")
    assert done.returncode == 0, done.stderr
