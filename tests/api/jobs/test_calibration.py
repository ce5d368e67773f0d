"""Temperature scaling of what a job exports, where it is asked for."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from support import Served, blobs, mlp

SIZES = (6, 64, 3)
RECIPE: dict[str, Any] = {"epochs": 60, "learning_rate": 0.02, "seed": 1}


def noisy(count: int, seed: int) -> dict[str, Any]:
    """A quarter of the labels is drawn: a network that learns them by heart is far too sure."""
    data = blobs(count, SIZES[0], SIZES[-1], seed=seed)
    rng = np.random.default_rng(seed)
    wrong = rng.uniform(size=count) < 0.25
    data["label"] = np.where(wrong, rng.integers(0, SIZES[-1], count), data["label"])
    return data


def register(served: Served, name: str, *, validation: int = 300) -> None:
    served.register(name, mlp(*SIZES), gate={"mode": "always"})
    served.upload(name, "train", **noisy(150, 1)).raise_for_status()
    served.upload(name, "validation", **noisy(validation, 2)).raise_for_status()


def logits(served: Served, name: str, job: dict[str, Any], x: Any) -> Any:
    url = f"/v1/models/{name}/versions/{job['version']}/model.onnx"
    content = served.http.get(url).content
    session = onnxruntime.InferenceSession(content, providers=["CPUExecutionProvider"])
    return session.run(["logits"], {"x": x})[0]


def test_confidence_fits_afterwards_and_the_version_tells_what_it_was(served: Served) -> None:
    register(served, "sure")
    plain = served.train("sure", **RECIPE)
    job = served.train("sure", **RECIPE, calibrate=True, **{"from": "base"})

    version = served.http.get(f"/v1/models/sure/versions/{job['version']}").json()
    metrics = version["metrics"]
    told = metrics["calibration"]
    before = plain["metrics"]["validation"]
    assert told["calibration_error_before"] == pytest.approx(before["calibration_error"], abs=1e-4)
    assert told["loss_before"] == pytest.approx(before["loss"], rel=1e-4)
    assert metrics["loss"] < told["loss_before"]
    assert metrics["calibration_error"] < 0.6 * told["calibration_error_before"]
    assert job["metrics"]["validation"]["loss"] == pytest.approx(metrics["loss"], rel=1e-4)
    x = noisy(50, 3)["x"]
    scaled, own = logits(served, "sure", job, x), logits(served, "sure", plain, x)
    assert told["temperature"] > 1
    assert np.allclose(scaled * told["temperature"], own, rtol=1e-4, atol=1e-4)
    held = noisy(2000, 9)
    assert loss(logits(served, "sure", job, held["x"]), held["label"]) < loss(
        logits(served, "sure", plain, held["x"]), held["label"]
    )


def loss(scores: Any, labels: Any) -> float:
    above = scores - scores.max(axis=1, keepdims=True)
    chosen = above[np.arange(len(labels)), labels]
    return float((np.log(np.exp(above).sum(axis=1)) - chosen).mean())


def test_training_goes_on_from_what_was_not_scaled(served: Served) -> None:
    register(served, "onward-scaled")
    first = served.train("onward-scaled", **RECIPE, calibrate=True)
    second = served.train("onward-scaled", max_steps=1, learning_rate=1e-9)
    then = first["metrics"]["validation"]["calibration"]["loss_before"]
    assert second["metrics"]["baseline"]["loss"] == pytest.approx(then, rel=1e-5)


def test_a_knn_head_is_calibrated_too(served: Served) -> None:
    register(served, "sure-knn")
    job = served.train("sure-knn", head={"kind": "knn", "k": 1}, calibrate=True)
    found = job["metrics"]["validation"]
    assert found["loss"] < found["calibration"]["loss_before"]


def test_too_few_samples_leave_it_out_with_the_reason(served: Served) -> None:
    register(served, "few-to-judge", validation=29)
    job = served.train("few-to-judge", epochs=1, calibrate=True)
    assert "calibration" not in job["metrics"]["validation"]
    assert job["metrics"]["warnings"] == ["not calibrated: fewer than 30 validation samples, 29"]


def test_other_losses_have_nothing_to_calibrate_or_to_balance(served: Served) -> None:
    served.register("amounts", mlp(*SIZES), loss="mse")
    x, label = blobs(9, 6, 3)["x"], np.zeros((9, 3), np.float32)
    served.upload("amounts", "train", x=x, label=label).raise_for_status()
    asked = {"calibrate": True, "sampling": "balanced"}
    answer = served.http.post("/v1/models/amounts/jobs", json=asked)
    assert answer.status_code == 422
    details = {error["pointer"]: error["detail"] for error in answer.json()["errors"]}
    assert details.keys() == {"/calibrate", "/sampling"}
    assert "the model's loss is mse" in details["/calibrate"]
    assert "calibrate" not in served.train("amounts", epochs=1)["hyperparameters"]
