"""A job's log over HTTP: while it trains, and after its child was killed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from functools import partial

import pytest
from support import Served, blobs, mlp, wait_until


def lines(served: Served, job_id: int) -> list[str]:
    body = served.http.get(f"/v1/jobs/{job_id}/log").json()
    return [f"{line['source']} {line['text']}" for line in body["lines"]]


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


def has_begun(served: Served, job_id: int, times: int) -> bool:
    return sum("training on" in line for line in lines(served, job_id)) == times
