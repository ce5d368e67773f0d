from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cli.demo import digits


@pytest.fixture
def model(honed: Callable[..., Any]) -> Iterator[str]:
    source = digits.folder() / "base.onnx"
    added = honed("models", "add", source, "--name", "nightly", "--loss", "cross_entropy")
    assert added.returncode == 0, added.stderr
    yield "nightly"
    honed("models", "remove", "nightly", "--yes")


def test_a_trigger_is_added_listed_switched_and_removed(
    honed: Callable[..., Any], model: str
) -> None:
    cron = ("--cron", "30 2 * * mon-fri", "--time-zone", "Europe/Berlin", "--epochs", 3)
    added = honed("triggers", "add", model, *cron, "--name", "weekdays", "--json")
    assert added.returncode == 0, added.stderr
    trigger = json.loads(added.stdout)
    assert trigger["hyperparameters"] == {"epochs": 3}
    assert (trigger["cron"], trigger["time_zone"]) == ("30 2 * * mon-fri", "Europe/Berlin")
    assert honed("triggers", "add", model, "--new-samples", 500).returncode == 0

    header, first, second = honed("triggers", "list", model).stdout.splitlines()
    assert header.split() == [
        *("ID", "MODEL", "NAME", "WHEN", "ON", "NEXT", "FIRED", "JOB", "LAST", "TRY")
    ]
    assert "weekdays" in first
    assert "cron=30 2 * * mon-fri, time_zone=Europe/Berlin" in first
    assert trigger["next_at"] in first
    assert "new_samples=500" in second

    everywhere = json.loads(honed("triggers", "list", "--json").stdout)
    (mine,) = [each for each in everywhere if each["id"] == trigger["id"]]
    assert mine["next_at"] > mine["created_at"]

    for command, on in (("disable", False), ("enable", True)):
        switched = honed("triggers", command, model, trigger["id"], "--json")
        assert json.loads(switched.stdout)["enabled"] is on

    assert honed("triggers", "remove", model, trigger["id"]).returncode == 0
    left = json.loads(honed("triggers", "list", model, "--json").stdout)
    assert [each["new_samples"] for each in left] == [500]


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        ((), "new_samples"),
        (("--cron", "61 2 * * *"), "cron"),
        (("--cron", "0 2 * * *", "--time-zone", "Mars/Olympus"), "Mars/Olympus"),
        (("--new-samples", 0), "new_samples"),
    ],
)
def test_a_rule_that_never_fires_is_refused(
    honed: Callable[..., Any], model: str, rule: tuple[object, ...], told: str
) -> None:
    refused = honed("triggers", "add", model, *rule)
    assert refused.returncode == 1
    assert told in refused.stderr
    assert json.loads(honed("triggers", "list", model, "--json").stdout) == []
