"""A real daemon on an injected laptop: a job runs because a person says so."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from laptop import Laptop, conditions, training
from support import Served, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs an injected /sys and /proc")

LONG = 1_000_000


def test_a_job_runs_in_spite_of_the_policy_but_not_of_a_person(
    on_laptop: Callable[..., Served], laptop: Laptop
) -> None:
    served = on_laptop()
    laptop.unplug()
    wait_until(lambda: not served.http.get("/v1/device").json()["eligible"], "the verdict to turn")
    waits = served.ask_for_job("m", epochs=LONG)["id"]
    wait_until(lambda: conditions(served.job(waits)) == ["power"], "the reason")
    runs = served.ask_for_job("m", epochs=LONG, ignore_policy=True)["id"]
    served.wait_for_job(runs, "running")

    served.http.post("/v1/pause")
    paused = served.wait_for_job(runs, "paused")

    assert conditions(paused) == ["paused"]
    assert served.job(waits)["state"] == "queued"


def run_now(served: Served, job_id: int) -> dict[str, Any]:
    answer = served.http.post(f"/v1/jobs/{job_id}/resume", json={"ignore_policy": True})
    assert answer.status_code == 200, answer.text
    return answer.json()


@pytest.mark.parametrize("by_person", [False, True], ids=["by the policy", "by a person"])
def test_a_paused_job_goes_on_in_spite_of_the_policy(
    on_laptop: Callable[..., Served], laptop: Laptop, by_person: bool
) -> None:
    served = on_laptop()
    job_id = training(served, epochs=LONG)
    laptop.unplug()
    served.wait_for_job(job_id, "paused")
    if by_person:
        served.http.post(f"/v1/jobs/{job_id}/pause")

    told = run_now(served, job_id)
    served.wait_for_job(job_id, "running")
    step = served.job(job_id)["progress"]["step"]
    wait_until(lambda: served.job(job_id)["progress"]["step"] > step, "the job to go on")

    assert (told["ignore_policy"], told["blocked_by"]) == (True, [])
    assert served.http.get("/v1/device").json()["eligible"] is False


def test_a_queued_job_begins_in_spite_of_the_policy(
    on_laptop: Callable[..., Served], laptop: Laptop
) -> None:
    served = on_laptop()
    laptop.unplug()
    wait_until(lambda: not served.http.get("/v1/device").json()["eligible"], "the verdict to turn")
    job_id = served.ask_for_job("m", max_steps=5)["id"]
    wait_until(lambda: conditions(served.job(job_id)) == ["power"], "the reason")

    told = run_now(served, job_id)
    done = served.wait_for_job(job_id, "succeeded")

    assert told["state"] == "queued"
    assert done["ignore_policy"] is True


def test_a_running_job_that_may_ignore_the_policy_outlives_the_mains(
    on_laptop: Callable[..., Served], laptop: Laptop
) -> None:
    served = on_laptop()
    job_id = training(served, epochs=LONG)

    assert run_now(served, job_id)["state"] == "running"
    laptop.unplug()
    wait_until(lambda: not served.http.get("/v1/device").json()["eligible"], "the verdict to turn")
    step = served.job(job_id)["progress"]["step"]
    wait_until(lambda: served.job(job_id)["progress"]["step"] > step, "the next steps")

    assert "job.preempted" not in served.said()
    assert served.job(job_id)["state"] == "running"
