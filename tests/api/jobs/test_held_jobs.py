"""A real daemon on an injected laptop: a job waits in memory until it may go on, or must not."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from laptop import KEPT, LAPTOP_MODEL, Laptop, conditions
from laptop import training as begin
from support import Served, blobs, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs an injected /sys and /proc")

LONG = {"epochs": 1_000_000}
PATIENCE_S = 3600
RETRY_S = 600
"""Longer than any test: no test sees a child that is tried again."""


def patient(daemon: Served) -> Served:
    """With two models, holding jobs in memory for an hour."""
    for name in ("a", "b"):
        daemon.register(name, LAPTOP_MODEL)
        daemon.upload(name, **blobs(300, 64, 4))
    policy = {"settle_seconds": 0, "suspend_in_memory_seconds": PATIENCE_S}
    daemon.http.put("/v1/policy", json=policy).raise_for_status()
    wait_until(lambda: device_of(daemon)["eligible"], "the verdict")
    return daemon


def hold(served: Served, laptop: Laptop, job_id: int) -> int:
    """A running job, once it waits in memory for mains."""
    laptop.unplug()
    wait_until(lambda: conditions(served.job(job_id)) == ["power"], "the hold")
    return job_id


@pytest.fixture(scope="module")
def daemon(serve_on_laptop: Callable[..., Served]) -> Served:
    return serve_on_laptop(retry_backoff_s=RETRY_S)


@pytest.fixture
def served(daemon: Served, laptop: Laptop) -> Iterator[Served]:
    """A patient daemon on the laptop; the next test finds it as this one does."""
    yield patient(daemon)
    daemon.clear(keep=(KEPT,))


@pytest.fixture
def training(served: Served) -> int:
    """A job of model a that has made its first steps."""
    return begin(served, "a", **LONG)


@pytest.fixture
def held(served: Served, laptop: Laptop, training: int) -> int:
    """The same job once it waits in memory for mains."""
    return hold(served, laptop, training)


def saved_steps(served: Served) -> list[int]:
    items = served.http.get("/v1/models/a/checkpoints").json()["items"]
    return [checkpoint["step"] for checkpoint in items]


def device_of(served: Served) -> dict[str, Any]:
    return served.http.get("/v1/device").json()


def kill_child(served: Served) -> None:
    child = served.child_pid()
    assert child is not None
    os.kill(child, signal.SIGKILL)


def test_a_held_job_makes_room_for_one_that_may_run(served: Served, held: int) -> None:
    waits = served.ask_for_job("b", **LONG)["id"]
    wait_until(lambda: conditions(served.job(waits)), "the reasons")
    told = served.job(waits)["blocked_by"]
    assert served.job(held)["state"] == "running"

    runs = served.ask_for_job("b", max_steps=5, ignore_policy=True)["id"]
    served.wait_for_job(runs, "succeeded")

    assert [each["condition"] for each in told] == ["another_job", "power"]
    assert told[0]["detail"] == f"job {held} of model 'a' is held in memory"
    for job_id, state in ((held, "paused"), (waits, "queued")):
        assert served.job(job_id)["state"] == state
        # Of the job that has ended the process may still be ending.
        wait_until(lambda of=job_id: conditions(served.job(of)) == ["power"], "it alone")


def test_a_held_job_tells_what_holds_it_now(served: Served, laptop: Laptop, held: int) -> None:
    laptop.charge(20)
    laptop.plug()
    device = wait_until(lambda: conditions(d := device_of(served)) == ["battery"] and d, "20 %")
    job = served.job(held)
    (listed,) = served.http.get("/v1/jobs", params={"state": "running"}).json()["items"]

    assert job["state"] == "running"
    assert job["blocked_by"] == listed["blocked_by"] == device["blocked_by"]


def test_a_daemon_that_is_killed_loses_no_step_of_a_held_job(
    serve: Callable[..., Served], laptop: Laptop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path=/nowhere/bus")
    served = patient(serve(sysfs_root=laptop.sysfs))
    held = hold(served, laptop, begin(served, "a", **LONG))
    step, *_ = wait_until(lambda: saved_steps(served), "the checkpoint")
    told = served.job(held)["progress"]["step"]
    served.stop(signal.SIGKILL)

    again = serve(sysfs_root=laptop.sysfs)
    wait_until(lambda: conditions(again.job(held)) == ["power"], "the reason")
    laptop.plug()
    again.wait_for_job(held, "running")
    wait_until(lambda: again.job(held)["progress"]["step"] != told, "the first news")

    assert again.job(held)["progress"]["step"] >= step >= told > 0


def test_a_child_that_dies_while_it_is_held_is_not_tried_again(
    served: Served, laptop: Laptop, held: int
) -> None:
    wait_until(lambda: saved_steps(served), "the checkpoint")

    kill_child(served)
    paused = served.wait_for_job(held, "paused")
    begun = served.said().count("job.training")
    laptop.plug()
    served.wait_for_job(held, "running")

    assert conditions(paused) == ["power"]
    assert paused["restarts"] == 0
    assert begun == 1


def test_a_job_that_is_to_be_tried_again_is_not_while_the_policy_keeps_it(
    served: Served, laptop: Laptop, training: int
) -> None:
    kill_child(served)
    wait_until(lambda: served.job(training)["restarts"] == 1, "the wait for the next try")

    laptop.unplug()
    paused = served.wait_for_job(training, "paused")
    laptop.plug()
    served.wait_for_job(training, "running")

    assert conditions(paused) == ["power"]


def test_a_held_job_goes_on_in_spite_of_the_policy(served: Served, held: int) -> None:
    child = served.child_pid()
    step = served.job(held)["progress"]["step"]

    told = served.http.post(f"/v1/jobs/{held}/resume", json={"ignore_policy": True})
    wait_until(lambda: served.job(held)["progress"]["step"] > step, "the job to go on")

    assert (told.status_code, told.json()["ignore_policy"]) == (200, True)
    assert conditions(told.json()) == []
    assert served.child_pid() == child
    assert conditions(served.job(held)) == []
    assert served.job(held)["state"] == "running"
