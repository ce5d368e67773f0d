from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cli.client import Client

LONG = ("--max-seconds", 300, "--json")


@pytest.fixture
def running_job(
    honed: Callable[..., Any],
    client: Client,
    add_model: Callable[..., str],
    wait_for: Callable[..., Any],
) -> int:
    """A job that runs until it is told to stop."""
    job_id: int = json.loads(honed("train", add_model(samples=50), *LONG).stdout)["id"]
    path = f"/v1/jobs/{job_id}"
    wait_for(lambda: client.get(path)["progress"]["step"] > 0, what="the first step")
    return job_id


def test_a_job_is_paused_resumed_and_cancelled(
    honed: Callable[..., Any],
    client: Client,
    running_job: int,
    wait_for: Callable[..., Any],
) -> None:
    def wait_until(state: str) -> None:
        wait_for(lambda: client.get(f"/v1/jobs/{running_job}")["state"] == state, what=state)

    for command, state in (("pause", "paused"), ("resume", "running"), ("cancel", "cancelled")):
        done = honed("jobs", command, running_job)
        assert done.returncode == 0, done.stderr
        wait_until(state)
    assert "state            cancelled" in honed("jobs", "show", running_job).stdout
    again = honed("jobs", "resume", running_job)
    assert again.returncode == 1
    assert "cancelled" in again.stderr


def test_a_job_is_told_to_run_now(
    honed: Callable[..., Any],
    client: Client,
    running_job: int,
    wait_for: Callable[..., Any],
) -> None:
    path = f"/v1/jobs/{running_job}"
    before = honed("jobs", "show", running_job).stdout
    client.post(f"{path}/pause")
    resumed = json.loads(honed("jobs", "resume", running_job, "--now", "--json").stdout)
    wait_for(lambda: client.get(path)["state"] == "running", what="running")
    shown, status = honed("jobs", "show", running_job).stdout, honed("status").stdout
    client.post(f"{path}/cancel")

    assert resumed["ignore_policy"] is True
    assert "ignoring the policy" not in before
    assert "state            running, ignoring the policy\n" in shown
    (line,) = [line for line in status.splitlines() if f"job {running_job} of" in line]
    assert line.endswith(", ignoring the policy")
    assert "in spite" not in honed("jobs", "show", running_job).stdout


def test_jobs_are_listed_by_state_and_model(
    honed: Callable[..., Any], client: Client, running_job: int, wait_for: Callable[..., Any]
) -> None:
    model = client.get(f"/v1/jobs/{running_job}")["model"]
    listed = json.loads(honed("jobs", "list", "--model", model, "--json").stdout)
    assert [job["id"] for job in listed] == [running_job]
    either = ("--state", "running", "--state", "failed")
    assert "running" in honed("jobs", "list", *either).stdout
    assert f"job {running_job} of {model}" in honed("status").stdout
    client.post(f"/v1/jobs/{running_job}/cancel")
    wait_for(
        lambda: client.get(f"/v1/jobs/{running_job}")["state"] == "cancelled", what="cancelled"
    )
    assert honed("jobs", "list", "--model", model, "--state", "running").stdout.count("\n") == 1


def test_a_job_that_does_not_exist_is_said(honed: Callable[..., Any]) -> None:
    done = honed("jobs", "show", 999_999)
    assert done.returncode == 1
    assert "999999" in done.stderr
