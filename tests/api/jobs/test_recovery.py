"""A daemon that is killed in mid-job takes it up, and the result is the same to the byte."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import Served, blobs, mlp, wait_until

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")

RECIPE = {
    "max_steps": 5_000,
    "batch_size": 16,
    "seed": 5,
    "schedule": "cosine",
    "warmup_steps": 10,
}


def prepared(served: Served) -> Served:
    served.register("m", mlp(32, 64, 4))
    assert served.upload("m", **blobs(500, 32, 4)).status_code == 201
    return served


def latest(served: Served) -> bytes:
    answer = served.http.get("/v1/models/m/latest/model.onnx")
    assert answer.status_code == 200
    return answer.content


def saved_steps(served: Served) -> list[int]:
    items = served.http.get("/v1/models/m/checkpoints").json()["items"]
    return [item["step"] for item in items]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, database: Path) -> bytes:
    """What a job ends with that nobody stops."""
    calm = prepared(Served(tmp_path_factory.mktemp("calm") / "data", database=database))
    try:
        calm.train("m", **RECIPE)
        return latest(calm)
    finally:
        calm.stop()


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM], ids=["killed", "stopped"])
def test_a_daemon_that_ends_in_mid_job_finishes_it_after_the_restart_bit_for_bit(
    serve: Callable[..., Served], undisturbed: bytes, how: signal.Signals
) -> None:
    first = prepared(serve(checkpoint_interval_s=0.1))
    job_id = first.ask_for_job("m", **RECIPE)["id"]
    wait_until(lambda: any(step > 0 for step in saved_steps(first)), "a checkpoint")
    child = first.child_pid()
    assert child is not None, "the job ended too soon to be interrupted"
    first.stop(how)
    second = serve()
    job = second.wait_for_job(job_id, "succeeded")

    assert job["progress"]["step"] == RECIPE["max_steps"]
    assert latest(second) == undisturbed
    assert second.http.get("/v1/models/m/versions").json()["items"][0]["version"] == 2


def test_what_was_answered_is_there_after_a_kill(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    first = serve(tmp_path / "data")
    first.register("m", mlp(3, 4, 2))
    for count in range(20):
        answer = first.upload("m", **blobs(10, 3, 2, seed=count))
        assert answer.status_code == 201
    first.stop(signal.SIGKILL)

    second = serve(tmp_path / "data")

    counts = second.http.get("/v1/models/m").json()["samples"]
    assert counts["train"] + counts["validation"] == 200
