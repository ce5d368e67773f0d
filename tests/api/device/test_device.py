"""What the device says, and what people ask of it, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone

import pytest
from support import Served, blobs, mlp, wait_until

LONG = 1_000_000
LAG = timedelta(minutes=2)


@pytest.fixture(scope="module")
def device(served: Served) -> Served:
    served.register("device", mlp(8, 16, 3))
    assert served.upload("device", **blobs(300, 8, 3)).status_code == 201
    return served


@pytest.fixture(autouse=True)
def nothing_asked_for(device: Served) -> Iterator[None]:
    """The daemon serves other tests too: whatever was asked for is taken back."""
    yield
    device.http.delete("/v1/snooze")
    device.http.post("/v1/resume")
    device.http.delete("/v1/policy")


@pytest.fixture
def long_job(device: Served) -> Iterator[int]:
    job_id = device.ask_for_job("device", epochs=LONG)["id"]
    wait_until(lambda: device.job(job_id)["progress"]["step"], "the first steps")
    yield job_id
    device.http.post(f"/v1/jobs/{job_id}/cancel")


def conditions(body: dict) -> list[str]:
    return [blocker["condition"] for blocker in body["blocked_by"]]


def test_every_signal_has_a_value_or_a_reason_a_source_and_an_age(device: Served) -> None:
    body = device.http.get("/v1/device").json()

    assert body["signals"].keys() >= {"on_ac_power", "foreign_cpu_percent", "local_time"}
    for name, signal in body["signals"].items():
        assert signal["value"] is not None or signal["detail"], name
        assert signal["source"], name
        assert 0 <= signal["age_seconds"] < 60, name
    assert body["trained_today_seconds"] >= 0


def test_the_last_day_has_a_value_for_every_interval(device: Served) -> None:
    device.http.get("/v1/device").raise_for_status()
    body = device.http.get("/v1/device/history", params={"hours": 2, "interval": 10}).json()

    assert body["interval_seconds"] == 600
    since = datetime.fromisoformat(body["since"].replace("Z", "+00:00"))
    assert timedelta(0) <= datetime.now(timezone.utc) - since - timedelta(hours=2) < LAG
    assert {len(body["eligible"]), len(body["trained_seconds"])} == {13}
    assert body["eligible"][0] is None
    assert body["eligible"][-1] in (True, False)
    memory = body["signals"]["available_memory_bytes"]
    assert memory["unit"] == "B"
    assert [*filter(None, memory["values"])][-1] > 0
    for wrong in ({"hours": 25}, {"interval": 0}):
        assert device.http.get("/v1/device/history", params=wrong).status_code == 422


def test_a_machine_without_a_battery_may_train_out_of_the_box(device: Served) -> None:
    body = device.http.get("/v1/device").json()

    assert (body["eligible"], body["blocked_by"]) == (True, [])
    assert (body["paused"], body["snoozed_until"]) == (False, None)


def test_a_snooze_pauses_the_job_and_its_end_lets_it_go_on(device: Served, long_job: int) -> None:
    verdict = device.http.post("/v1/snooze", json={"minutes": 30}).json()
    paused = device.wait_for_job(long_job, "paused")
    device.http.delete("/v1/snooze")
    device.wait_for_job(long_job, "running")

    left = datetime.fromisoformat(verdict["snoozed_until"].replace("Z", "+00:00")) - datetime.now(
        timezone.utc
    )
    assert timedelta(minutes=25) < left < timedelta(minutes=31)
    assert conditions(verdict) == conditions(paused) == ["snoozed"]
    assert "min more" in paused["blocked_by"][0]["detail"]


def test_a_snooze_until_morning_ends_at_seven(device: Served) -> None:
    verdict = device.http.post("/v1/snooze", json={"until": "morning"}).json()

    end = datetime.fromisoformat(verdict["snoozed_until"].replace("Z", "+00:00"))
    assert (end.astimezone().hour, end.astimezone().minute) == (7, 0)
    assert timedelta() < end - datetime.now(timezone.utc) <= timedelta(hours=25)


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, ""),
        ({"minutes": 5, "until": "morning"}, ""),
        ({"minutes": -5}, "/minutes"),
        ({"until": "2020-01-01T00:00:00Z"}, "/until"),
        ({"hours": 5}, "/hours"),
    ],
)
def test_a_snooze_without_a_right_end_is_refused(device: Served, body: dict, pointer: str) -> None:
    answer = device.http.post("/v1/snooze", json=body)

    assert answer.status_code == 422
    assert any(fault["pointer"].startswith(pointer) for fault in answer.json()["errors"])
    assert device.http.get("/v1/device").json()["snoozed_until"] is None


def test_pausing_all_holds_every_job_over_a_restart(
    serve: Callable[..., Served],
) -> None:
    first = serve()
    first.register("m", mlp(4, 8, 2))
    first.upload("m", **blobs(100, 4, 2))
    assert conditions(first.http.post("/v1/pause").json()) == ["paused"]
    job_id = first.ask_for_job("m", max_steps=1, ignore_policy=True)["id"]
    first.stop()

    second = serve()
    assert conditions(second.http.get("/v1/device").json()) == ["paused"]
    assert second.job(job_id)["state"] == "queued"
    verdict = second.http.post("/v1/resume").json()
    second.wait_for_job(job_id, "succeeded")

    assert verdict["eligible"] is True


def test_the_verdict_is_an_event(device: Served) -> None:
    with device.http.stream("GET", "/v1/events", params={"type": "device."}) as stream:
        lines = stream.iter_lines()
        next(lines)
        device.http.post("/v1/pause")
        line = next(line for line in lines if line.startswith("data:"))

    assert conditions(json.loads(line.removeprefix("data:"))["data"]) == ["paused"]


def test_a_job_with_a_higher_priority_goes_first(device: Served, long_job: int) -> None:
    low = device.ask_for_job("device", max_steps=1)["id"]
    high = device.ask_for_job("device", max_steps=1, priority=5)["id"]
    device.http.post(f"/v1/jobs/{long_job}/cancel")

    device.wait_for_job(low, "succeeded")

    assert device.job(high)["state"] == "succeeded"
    assert device.job(high)["started_at"] < device.job(low)["started_at"]


def test_the_log_tells_no_error_numbers(laptop_daemon: Served) -> None:
    said = 'sleep.not_told detail="logind cannot be asked: No such file or directory"'
    wait_until(lambda: said in laptop_daemon.said(), "the log to tell of logind")
    assert "Errno" not in laptop_daemon.said()
