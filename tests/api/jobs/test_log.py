"""A job's log over HTTP: while it trains, and after its child was killed."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from support import Served, blobs, mlp, wait_until


def raw_lines(served: Served, job_id: int) -> list[dict[str, str]]:
    found: list[dict[str, str]] = served.http.get(f"/v1/jobs/{job_id}/log").json()["lines"]
    return found


def lines(served: Served, job_id: int) -> list[str]:
    return [f"{line['source']} {line['text']}" for line in raw_lines(served, job_id)]


def test_there_is_no_log_of_a_job_that_is_not_there(served: Served) -> None:
    assert served.http.get("/v1/jobs/999999/log").status_code == 404


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_it_tells_of_every_child_while_the_job_lives_and_when_it_has_failed(
    serve: Callable[..., Served],
) -> None:
    served = serve(retry_backoff_s=0.01)
    served.register("logged", mlp(32, 64, 4))
    assert served.upload("logged", **blobs(500, 32, 4)).status_code == 201
    job_id = served.ask_for_job("logged", epochs=100_000)["id"]

    for restarts in range(4):
        wait_until(partial(has_begun, served, job_id, restarts + 1), "the child to train")
        child = served.child_pid()
        assert child is not None
        os.kill(child, signal.SIGKILL)
    job = served.wait_for_job(job_id, "failed")

    found = lines(served, job_id)
    assert job["error"]["code"] == "child_died"
    assert found[0].startswith("daemon training on")
    assert [line for line in found if "SIGKILL" in line] == found[1::2]
    assert len(found) == 8


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_what_it_told_with_the_progress_outlives_a_kill_of_the_daemon(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    first = serve(tmp_path / "data")
    first.register("logged", mlp(32, 64, 4))
    assert first.upload("logged", **blobs(500, 32, 4)).status_code == 201
    job_id = first.ask_for_job("logged", epochs=100_000)["id"]
    wait_until(lambda: first.job(job_id)["progress"]["step"], "the first steps")
    told = raw_lines(first, job_id)
    first.stop(signal.SIGKILL)

    second = serve(tmp_path / "data")

    seen: list[list[dict[str, str]]] = []

    def began_again() -> bool:
        seen.append(raw_lines(second, job_id))
        return sum("training on" in line["text"] for line in seen[-1]) == 2

    wait_until(began_again, "the job to begin again")
    assert told == told[:1]
    assert all(each[:1] == told for each in seen)


def has_begun(served: Served, job_id: int, times: int) -> bool:
    return sum("training on" in line for line in lines(served, job_id)) == times


def test_a_bug_of_ours_in_the_child_fails_the_job_at_once_and_both_logs_have_its_traceback(
    serve: Callable[..., Served],
) -> None:
    """No request asks for batches of 0 samples, so its row is changed while no daemon runs."""
    first = serve()
    first.register("logged", mlp(32, 64, 4))
    assert first.upload("logged", **blobs(50, 32, 4)).status_code == 201
    first.http.post("/v1/pause").raise_for_status()
    job_id = first.ask_for_job("logged", epochs=2)["id"]
    first.stop()
    with closing(sqlite3.connect(first.data_dir / "hone.db")) as database, database:
        database.execute(
            "UPDATE jobs SET hyperparameters = json_set(hyperparameters, '$.batch_size', 0)"
        )
    second = serve()
    second.http.post("/v1/resume").raise_for_status()

    job = second.wait_for_job(job_id, "failed")

    assert (job["restarts"], job["error"]["code"]) == (0, "internal")
    assert "ZeroDivisionError: " in job["error"]["detail"]
    told = "daemon a bug in Hone ended the task train"
    assert any(line.startswith(told) for line in lines(second, job_id))
    traceback = "child Traceback (most recent call last):"
    wait_until(lambda: traceback in lines(second, job_id), "the job's log")
    wait_until(lambda: "child.traceback" in second.said(), "the daemon's log")
