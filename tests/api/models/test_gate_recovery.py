"""What ends between a job's last step and its version ends neither the job nor the gate."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from support import Served, blobs, mlp, wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")

RECIPE = {"max_steps": 40, "batch_size": 16, "seed": 5, "learning_rate": 0.01}
SETTINGS = {"retry_backoff_s": 0.1}


def prepared(serve: Callable[..., Served], folder: Path) -> Served:
    """A model whose comparison takes a while."""
    served = serve(folder, **SETTINGS)
    served.register("m", mlp(64, 256, 256, 4))
    assert served.upload("m", **blobs(500, 64, 4), split="train").status_code == 201
    assert served.upload("m", **blobs(10_000, 64, 4, seed=1), split="validation").status_code == 201
    return served


def result(served: Served) -> tuple[bytes, str]:
    latest = served.http.get("/v1/models/m/latest").json()
    assert (latest["version"], latest["promoted"]) == (2, True)
    return served.http.get("/v1/models/m/latest/model.onnx").content, latest["reason"]


def other_child(served: Served, trainer: int) -> int:
    """The child that compares, which may live for some tens of milliseconds."""
    wait_until(lambda: not psutil.pid_exists(trainer), "the child that trains to end", poll_s=0.002)

    def comparing() -> int | None:
        child = served.child_pid()
        return None if child == trainer else child

    found: int = wait_until(comparing, "the child that compares", poll_s=0.001)
    return found


def test_a_kill_before_the_verdict_changes_neither_model_nor_verdict(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    calm = prepared(serve, tmp_path / "calm")
    calm.train("m", **RECIPE)
    undisturbed = result(calm)
    calm.stop()

    first = prepared(serve, tmp_path / "killed")
    job_id = first.ask_for_job("m", **RECIPE)["id"]
    trainer = wait_until(first.child_pid, "the child that trains")
    evaluator = other_child(first, trainer)
    os.kill(evaluator, signal.SIGKILL)
    wait_until(lambda: first.job(job_id)["restarts"] == 1, "the next try")
    first.stop(signal.SIGKILL)
    second = serve(tmp_path / "killed", **SETTINGS)

    assert second.wait_for_job(job_id)["state"] == "succeeded"
    assert result(second) == undisturbed
    assert len(second.http.get("/v1/models/m/versions").json()["items"]) == 2


def test_a_job_may_be_paused_while_its_model_is_compared(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = prepared(serve, tmp_path / "paused")
    job_id = served.ask_for_job("m", **RECIPE)["id"]
    trainer = wait_until(served.child_pid, "the child that trains")
    other_child(served, trainer)
    paused = served.http.post(f"/v1/jobs/{job_id}/pause")
    if paused.status_code == 200:
        assert served.http.get("/v1/models/m/latest").json()["version"] == 1
        assert served.http.post(f"/v1/jobs/{job_id}/resume").status_code == 200
    assert served.wait_for_job(job_id, "succeeded")["version"] == 2
