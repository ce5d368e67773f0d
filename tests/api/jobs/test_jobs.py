"""Jobs over HTTP: the life of one, in a real child process."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import onnxruntime
import pytest
from support import Served, blobs, client, mlp, wait_until

LONG = 1_000_000
"""Epochs of a job that does not end by itself."""


@pytest.fixture(scope="module")
def model(served: Served) -> str:
    served.register("jobs", mlp(8, 16, 3))
    assert served.upload("jobs", **blobs(600, 8, 3)).status_code == 201
    return "jobs"


@pytest.fixture
def long_job(served: Served, model: str) -> Iterator[int]:
    job_id = served.ask_for_job(model, epochs=LONG)["id"]
    wait_until(lambda: served.job(job_id)["progress"]["step"], "the first steps")
    yield job_id
    if served.job(job_id)["state"] not in ("succeeded", "failed", "cancelled"):
        served.http.post(f"/v1/jobs/{job_id}/cancel")


def test_a_job_learns_and_its_version_infers_outside_the_daemon(served: Served, model: str) -> None:
    job = served.train(model, epochs=5, seed=1, learning_rate=0.02)
    latest = served.http.get(f"/v1/models/{model}/latest").json()
    file = served.http.get(f"/v1/models/{model}/latest/model.onnx").content

    fresh = blobs(500, 8, 3, seed=99)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (logits,) = session.run(None, {"x": fresh["x"]})
    accuracy = (logits.argmax(axis=1) == fresh["label"]).mean()
    assert job["version"] == latest["version"] >= 2
    assert latest["job_id"] == job["id"]
    assert "latest" in latest["aliases"]
    assert job["progress"]["step"] == job["progress"]["total_steps"]
    assert job["metrics"]["validation"]["accuracy"] > job["metrics"]["baseline"]["accuracy"]
    assert accuracy > 0.9


def test_a_job_that_has_ended_has_no_time_left(served: Served, model: str) -> None:
    asked = {"epochs": 10_000, "learning_rate": 0.5, "early_stopping_patience": 1}
    job = served.train(model, **asked)

    assert job["progress"]["step"] < job["progress"]["total_steps"]
    assert job["progress"]["eta_seconds"] is None


def test_the_loss_curve_falls(served: Served, model: str) -> None:
    job = served.train(model, epochs=5, seed=2, learning_rate=0.02, **{"from": "base"})

    points = served.http.get(f"/v1/jobs/{job['id']}/metrics").json()["items"]

    losses = [point["values"]["train_loss"] for point in points if "train_loss" in point["values"]]
    steps = [point["step"] for point in points]
    assert steps == sorted(steps)
    assert np.mean(losses[-3:]) < np.mean(losses[:3]) / 2
    assert any("validation_loss" in point["values"] for point in points)


def test_hyperparameters_are_checked(served: Served, model: str) -> None:
    wrong = served.http.post(
        f"/v1/models/{model}/jobs", json={"epochs": 0, "learning_rate": "fast", "sed": 1}
    )

    assert wrong.status_code == 422
    places = {fault["pointer"] for fault in wrong.json()["errors"]}
    assert places == {"/epochs", "/learning_rate", "/sed"}


def test_a_job_without_samples_is_refused(served: Served) -> None:
    served.register("nothing", mlp(3, 4, 2))

    answer = served.http.post("/v1/models/nothing/jobs")

    assert answer.status_code == 409
    assert answer.json()["code"] == "no_samples"


@pytest.mark.parametrize("start", [10**9, "newest", 0, -(2**63) - 1])
def test_a_job_begins_at_what_the_model_has(served: Served, model: str, start: object) -> None:
    answer = served.http.post(f"/v1/models/{model}/jobs", json={"from": start})

    assert answer.status_code == 422


def test_a_job_may_begin_at_a_checkpoint(served: Served, model: str) -> None:
    first = served.train(model, epochs=1)
    checkpoints = served.http.get(f"/v1/models/{model}/checkpoints").json()["items"]
    final = next(c for c in checkpoints if c["job_id"] == first["id"] and c["role"] == "final")

    second = served.train(model, epochs=1, **{"from": final["id"]})

    assert second["metrics"]["baseline"] == first["metrics"]["validation"]


def test_a_running_job_is_cancelled(served: Served, long_job: int) -> None:
    answer = served.http.post(f"/v1/jobs/{long_job}/cancel")

    assert answer.status_code == 200
    assert answer.json()["state"] == "cancelled"
    assert served.job(long_job)["version"] is None
    again = served.http.post(f"/v1/jobs/{long_job}/cancel")
    assert again.status_code == 409


def test_a_paused_job_waits_for_a_person_and_goes_on(served: Served, long_job: int) -> None:
    paused = served.http.post(f"/v1/jobs/{long_job}/pause").json()
    step = served.job(long_job)["progress"]["step"]
    wait_until(lambda: served.child_pid() is None, "the child to end")

    resumed = served.http.post(f"/v1/jobs/{long_job}/resume")
    wait_until(lambda: served.job(long_job)["progress"]["step"] > step, "the job to go on")

    assert paused["state"] == "paused"
    assert paused["blocked_by"][0]["condition"] == "paused_by_person"
    assert resumed.status_code == 200


def test_a_pause_that_is_still_answered_does_not_undo_a_resume(
    served: Served, long_job: int
) -> None:
    with ThreadPoolExecutor(1) as beside:
        asked = beside.submit(served.http.post, f"/v1/jobs/{long_job}/pause")
        with client(served.url, token=served.token) as another:
            job = f"/v1/jobs/{long_job}"
            wait_until(lambda: another.get(job).json()["state"] == "paused", "the pause")
            resumed = another.post(f"{job}/resume")

    assert (asked.result().status_code, resumed.status_code) == (200, 200)
    assert served.job(long_job)["blocked_by"] == []
    served.wait_for_job(long_job, "running")


def test_a_job_is_resumed_with_what_the_body_may_say_and_no_more(
    served: Served, long_job: int
) -> None:
    path = f"/v1/jobs/{long_job}"
    while_it_runs = served.http.post(f"{path}/resume", json={})
    served.http.post(f"{path}/pause")
    mistyped = served.http.post(f"{path}/resume", json={"ignore_polcy": True})
    wrong = served.http.post(f"{path}/resume", json={"ignore_policy": "yes"})
    still = served.job(long_job)
    resumed = served.http.post(f"{path}/resume", json={"ignore_policy": False})
    served.wait_for_job(long_job, "running")

    assert (while_it_runs.status_code, mistyped.status_code, wrong.status_code) == (409, 422, 422)
    assert [fault["pointer"] for fault in mistyped.json()["errors"]] == ["/ignore_polcy"]
    assert still["blocked_by"][0]["condition"] == "paused_by_person"
    assert (resumed.status_code, resumed.json()["ignore_policy"]) == (200, False)


def test_a_job_that_has_ended_cannot_be_run_now(served: Served, model: str) -> None:
    done = served.train(model, epochs=1)

    answer = served.http.post(f"/v1/jobs/{done['id']}/resume", json={"ignore_policy": True})

    assert answer.status_code == 409
    assert "succeeded" in answer.json()["detail"]
    assert served.job(done["id"])["ignore_policy"] is False


def test_a_second_job_waits_and_says_for_whom(served: Served, model: str, long_job: int) -> None:
    second = served.ask_for_job(model, epochs=1)["id"]

    blocked = wait_until(lambda: served.job(second)["blocked_by"], "the reason")

    assert blocked[0]["condition"] == "another_job"
    assert str(long_job) in blocked[0]["detail"]
    assert served.http.delete(f"/v1/models/{model}").status_code == 409
    served.http.post(f"/v1/jobs/{second}/cancel")
    assert served.job(second)["state"] == "cancelled"


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="Windows has no SIGKILL")
def test_a_killed_child_is_tried_again_then_the_job_fails_with_its_last_words(
    served: Served, long_job: int
) -> None:
    killed: set[int] = set()

    def kill_the_next() -> bool:
        pid = served.child_pid()
        if pid is not None and pid not in killed:
            killed.add(pid)
            os.kill(pid, signal.SIGKILL)
        return len(killed) == 4

    wait_until(kill_the_next, "four children")
    job = served.wait_for_job(long_job, "failed")

    assert job["restarts"] == 3
    assert job["error"]["code"] == "child_died"
    assert "SIGKILL" in job["error"]["detail"]
    assert served.http.get("/readyz").status_code == 200


def test_lists_are_filtered_by_model_and_state(served: Served, model: str) -> None:
    done = served.train(model, epochs=1)

    listed = served.http.get("/v1/jobs", params={"model": model, "state": "succeeded"}).json()

    assert listed["items"][0]["id"] == done["id"]
    assert {job["state"] for job in listed["items"]} == {"succeeded"}
    either = {"model": model, "state": ["succeeded", "failed"]}
    both = served.http.get("/v1/jobs", params=either).json()["items"]
    assert [job for job in both if job["state"] == "succeeded"] == listed["items"]
    assert {job["state"] for job in both} <= {"succeeded", "failed"}
    assert served.http.get("/v1/jobs", params={"state": "lost"}).status_code == 422


FAILING = {"learning_rate": 100.0, "epochs": 50, "schedule": "constant"}


def test_a_loss_that_explodes_fails_the_job_with_advice(
    served: Served, serve: Callable[..., Served]
) -> None:
    served.register("explodes", mlp(8, 16, 1), loss="mse", optimizer="sgd")
    data = blobs(200, 8, 3)
    served.upload("explodes", x=data["x"] * 1e6, label=data["label"].astype(np.float32) * 1e6)

    job = served.wait_for_job(served.ask_for_job("explodes", **FAILING)["id"], "failed")

    assert job["error"]["code"] == "loss_not_finite"
    assert "learning" in job["error"]["detail"]
    assert job["restarts"] == 0
    assert served.http.get("/v1/models/explodes").json()["latest_version"] == 1


def test_labels_that_no_float_holds_squared_are_named_before_the_first_step(
    served: Served,
) -> None:
    served.register("towers", mlp(8, 16, 1), loss="mse")
    data = blobs(200, 8, 3)
    label = np.where(data["label"] == 0, 1e20, -1e20).astype(np.float32)
    served.upload("towers", x=data["x"], label=label)

    job = served.wait_for_job(served.ask_for_job("towers", epochs=1)["id"], "failed")

    assert job["error"]["code"] == "loss_not_finite"
    assert "bring inputs and labels to values of about 1" in job["error"]["detail"]
    assert job["progress"]["step"] == 0


@pytest.mark.parametrize("delay_s", [0.0, 0.004, 0.008, 0.015, 0.03, 0.06])
def test_a_job_is_cancelled_while_it_begins_and_its_child_with_it(
    served: Served, model: str, delay_s: float
) -> None:
    for _ in range(3):
        job = served.ask_for_job(model, epochs=LONG)["id"]
        time.sleep(delay_s)  # what is tried is each moment of the beginning

        answer = served.http.post(f"/v1/jobs/{job}/cancel")

        assert (answer.status_code, answer.json()["state"]) == (200, "cancelled"), answer.text
        wait_until(lambda: served.child_pid() is None, "the child to end")
    assert served.process.poll() is None


def test_a_job_that_ended_before_it_could_be_cancelled_says_so(served: Served, model: str) -> None:
    done = served.train(model, epochs=1)

    answer = served.http.post(f"/v1/jobs/{done['id']}/cancel")

    assert answer.status_code == 409
    assert "succeeded" in answer.json()["detail"]


def test_a_job_tells_what_may_keep_it_from_learning(served: Served) -> None:
    served.register("job-warnings", mlp(3, 4, 2), classes=["cat", "dog"])
    x = np.random.default_rng(0).normal(size=(40, 3)).astype(np.float32)
    x[:, 1] = 9
    answer = served.upload("job-warnings", split="train", x=x, label=np.zeros(40, np.int64))

    job = served.train("job-warnings", epochs=1, early_stopping_patience=1)

    assert len(answer.json()["warnings"]) == 3, answer.text
    told = job["metrics"]["warnings"]
    assert any("of class 'cat'" in each for each in told)
    assert any("feature 1" in each for each in told)
    assert any("no validation samples, so early_stopping_patience" in each for each in told)
