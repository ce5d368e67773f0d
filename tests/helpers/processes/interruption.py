"""A job that is interrupted in both ways before it ends."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from daemon_process import SIGKILL
from support import Served, wait_until, weights


def interrupted(
    served: Served, job_id: int, *, while_paused: Callable[[], object] = lambda: None
) -> dict[str, Any]:
    """How it ends when it is paused at its first steps, resumed, and then its child is killed.

    It must have seconds of work, or it ends before it is paused.
    """

    def step() -> int:
        return int(served.job(job_id)["progress"].get("step") or 0)

    wait_until(step, "the first steps")
    paused = served.http.post(f"/v1/jobs/{job_id}/pause").json()
    assert paused["state"] == "paused", paused
    at = step()
    assert at < paused["progress"]["total_steps"]
    while_paused()
    served.http.post(f"/v1/jobs/{job_id}/resume").raise_for_status()
    wait_until(lambda: step() > at, "the job to go on")
    pid = served.child_pid()
    assert pid is not None
    os.kill(pid, SIGKILL)
    job = served.wait_for_job(job_id)
    assert (job["state"], job["restarts"]) == ("succeeded", 1)
    return job


def weights_of(served: Served, job: dict[str, Any]) -> dict[str, bytes]:
    """The weights of the version that a job has made, to compare with those of another."""
    url = f"/v1/models/{job['model']}/versions/{job['version']}/model.onnx"
    return weights(served.http.get(url).raise_for_status().content)
