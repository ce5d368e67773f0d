"""The policy over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from support import Served

from api.schemas.device import PolicyBody
from service.policy.policy import Policy


@pytest.fixture(autouse=True)
def defaults(served: Served) -> Iterator[None]:
    yield
    served.http.delete("/v1/policy")


def test_the_body_has_every_setting() -> None:
    assert list(PolicyBody.model_fields) == [field.name for field in fields(Policy)]


def test_what_is_put_is_changed_and_what_is_left_out_stays(served: Served) -> None:
    before = served.http.get("/v1/policy").json()
    window = {"days": ["fri", "sat"], "start": "22:00", "end": "06:00"}
    changes = {"max_minutes_per_day": 90, "windows": [window], "unknown": {"disk": "allow"}}

    answer = served.http.put("/v1/policy", json=changes)

    unknown = {**before["unknown"], "disk": "allow"}
    assert answer.status_code == 200
    assert answer.json() == {**before, **changes, "unknown": unknown}
    assert served.http.get("/v1/policy").json() == answer.json()


def test_everything_that_is_wrong_is_told_at_once_and_nothing_is_changed(served: Served) -> None:
    before = served.http.get("/v1/policy").json()

    answer = served.http.put(
        "/v1/policy", json={"nice": 50, "min_batery_percent": 5, "windows": [{}], "idle_minutes": 9}
    )

    assert answer.status_code == 422
    assert answer.json()["code"] == "invalid_input"
    places = [fault["pointer"] for fault in answer.json()["errors"]]
    assert places == ["/nice", "/min_batery_percent", "/windows/0"]
    assert served.http.get("/v1/policy").json() == before


@pytest.mark.parametrize("content", ["[]", "null", "{", '{"nice": NaN}', '"nice"'])
def test_what_is_no_policy_is_refused(served: Served, content: str) -> None:
    headers = {"Content-Type": "application/json"}

    answer = served.http.put("/v1/policy", content=content, headers=headers)

    assert answer.status_code == 422
    assert answer.json()["errors"]


def test_levels_that_contradict_each_other_are_refused(served: Served) -> None:
    levels = {"min_battery_percent": 60, "resume_battery_percent": 40}

    answer = served.http.put("/v1/policy", json=levels)

    assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/resume_battery_percent"]


def test_the_policy_outlives_a_restart_and_can_be_taken_back(serve: Callable[..., Served]) -> None:
    first = serve(training_nice=7)
    default = first.http.get("/v1/policy").json()
    first.http.put("/v1/policy", json={"nice": 12})
    first.stop()
    second = serve(training_nice=7)

    kept = second.http.get("/v1/policy").json()
    taken_back = second.http.delete("/v1/policy").json()

    assert default["nice"] == 7
    assert kept == {**default, "nice": 12}
    assert taken_back == default


def test_a_policy_is_tried_without_being_stored(served: Served) -> None:
    before = served.http.get("/v1/policy").json()
    own = Path("/proc/self/comm").read_text("ascii").strip()
    closed = {"windows": [{"days": [day_after_tomorrow()], "start": "03:00", "end": "03:30"}]}
    asks: list[tuple[dict[str, Any], set[str]]] = [
        ({}, set()),
        (closed, {"window"}),
        ({**closed, "max_minutes_per_day": 0}, {"window", "daily_limit"}),
        ({"min_free_disk_bytes": 2**49, "resume_free_disk_bytes": 2**50}, {"disk"}),
        ({"blocking_processes": [own]}, {"processes"}),
        ({"blocking_processes": ["no-such-program"]}, set()),
    ]

    for changes, wanted in asks:
        body = served.http.post("/v1/policy/check", json=changes).json()
        found = {blocker["condition"] for blocker in body["blocked_by"]}
        assert found == wanted, changes
        assert body["eligible"] == (not wanted)
        assert all(blocker["detail"] for blocker in body["blocked_by"])
    assert served.http.get("/v1/policy").json() == before


def test_a_policy_that_is_tried_is_checked_as_one_that_is_put(served: Served) -> None:
    wrong = {"nice": 50, "min_batery_percent": 5}
    tried, put = (
        served.http.request(method, path, json=wrong)
        for method, path in (("POST", "/v1/policy/check"), ("PUT", "/v1/policy"))
    )
    assert (tried.status_code, tried.json()["errors"]) == (422, put.json()["errors"])


def day_after_tomorrow() -> str:
    return (datetime.now().astimezone() + timedelta(days=2)).strftime("%a").lower()
