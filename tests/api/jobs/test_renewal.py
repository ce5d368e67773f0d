"""Data folders of before there were two engines: their models, checkpoints and paused jobs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from stored import unpacked
from support import Served

from service.training.engines.packages import has_on_device_training

FOLDER = Path(__file__).parent / "folders" / "before_engines.zip"
OLD = "onnxruntime-training 1.19.2"


with_the_wheel = pytest.mark.skipif(
    not has_on_device_training(), reason="plain onnxruntime has no On-Device Training"
)
without_the_wheel = pytest.mark.skipif(
    has_on_device_training(), reason="it is about devices without On-Device Training"
)


@pytest.fixture
def old(serve: Callable[..., Served], tmp_path: Path) -> Served:
    """A daemon on a data folder of commit 0bfae8b, whose job 3 is paused at step 156."""
    return serve(unpacked(FOLDER, tmp_path / "old"))


def get(served: Served, path: str) -> dict[str, Any]:
    answer: dict[str, Any] = served.http.get(path).raise_for_status().json()
    return answer


@with_the_wheel
def test_an_old_folder_opens_and_its_paused_job_goes_on_in_its_engine(old: Served) -> None:
    assert get(old, "/v1/models/kept")["engine"] == "ort_training"
    (saved, *_) = get(old, "/v1/models/kept/checkpoints")["items"]
    assert (saved["engine"], saved["step"]) == (OLD, 156)
    # A job that is asked for while this one waits changes no engine.
    assert old.train("kept", epochs=1)["engine"] == OLD
    old.http.post("/v1/jobs/3/resume", json={"ignore_policy": True}).raise_for_status()
    job = old.wait_for_job(3, "succeeded")
    assert (job["engine"], job["progress"]["step"]) == (OLD, 4000)
    assert job["metrics"]["validation"]["loss"] == pytest.approx(0.4846290, rel=1e-4)


def test_a_new_job_prepares_an_old_model_anew_and_begins_from_its_latest_parameters(
    old: Served,
) -> None:
    old.http.post("/v1/jobs/3/cancel").raise_for_status()
    before = get(old, "/v1/models/kept")
    job = old.train("kept", max_steps=1, learning_rate=1e-9)
    after = get(old, "/v1/models/kept")
    assert job["engine"].startswith("sessions 1 on onnxruntime 1.")
    assert (before["engine"], after["engine"]) == ("ort_training", "sessions")
    assert "prepared anew" in after["notes"][-1]
    assert after["parameters"] == {**before["parameters"], "names": after["parameters"]["names"]}
    latest = get(old, "/v1/jobs/1")["metrics"]["validation"]
    assert job["metrics"]["baseline"]["loss"] == pytest.approx(latest["loss"], rel=1e-6)
    assert job["metrics"]["warnings"] == []


@with_the_wheel
def test_a_model_of_microsofts_artifacts_stays_with_their_engine(old: Served) -> None:
    assert old.train("zipped", epochs=1)["engine"] == OLD
    assert get(old, "/v1/models/zipped")["engine"] == "ort_training"


@without_the_wheel
def test_a_paused_job_whose_engine_is_gone_begins_again_from_its_parameters(old: Served) -> None:
    loss = get(old, "/v1/jobs/3/metrics")["items"][-1]["values"]["train_loss"]
    old.http.post("/v1/jobs/3/resume", json={"ignore_policy": True}).raise_for_status()
    job = old.wait_for_job(3, "succeeded")
    assert job["engine"].startswith("sessions 1 on onnxruntime 1.")
    assert job["metrics"]["warnings"] == [
        f"{OLD}, which began this job, does not train the model any more: the job begins again,"
        " from its parameters after 156 steps"
    ]
    points = get(old, "/v1/jobs/3/metrics")["items"]
    assert job["progress"]["step"] == 4000
    assert points[0]["values"]["train_loss"] < 2 * loss
    assert get(old, "/v1/models/kept")["engine"] == "sessions"


@without_the_wheel
def test_microsofts_artifacts_are_refused_by_name_where_their_engine_is_gone(old: Served) -> None:
    job = old.wait_for_job(old.ask_for_job("zipped", epochs=1)["id"])
    assert (job["state"], job["error"]["code"]) == ("failed", "engine_missing")
    assert "onnxruntime-training-cpu==1.19.2" in job["error"]["detail"]
