"""A model that gives its input back learns what is normal, and tells what is not."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper
from series import series_model
from support import Served

LENGTH, CHANNELS = 8, 2
JOB = {"epochs": 60, "batch_size": 32, "learning_rate": 0.01, "seed": 0}


def normal(count: int, *, seed: int) -> np.ndarray:
    """Windows of two sines of one frequency, of any phase and loudness."""
    rng = np.random.default_rng(seed)
    phase = rng.uniform(0, 2 * np.pi, (count, 1, CHANNELS))
    waves = np.sin(np.arange(LENGTH)[:, None] * 0.7 + phase) * rng.uniform(0.5, 1.5, (count, 1, 1))
    return (waves + 0.05 * rng.standard_normal(waves.shape)).astype(np.float32)


def odd(count: int, *, seed: int) -> np.ndarray:
    """The same with a click in the middle."""
    windows = normal(count, seed=seed)
    windows[:, LENGTH // 2] += np.float32(1.5)
    return windows


@pytest.fixture(scope="module")
def model(served: Served) -> str:
    """400 windows for training, of which 20 are labelled anomalous, 200 normal ones and 40 others
    for validation, and a version that a job made of them.
    """
    name = "odd-windows"
    shape = (LENGTH, CHANNELS)
    served.register(name, series_model(shape, shape, hidden=12), loss="reconstruction")
    served.upload(name, split="train", x=normal(380, seed=1)).raise_for_status()
    served.upload(name, split="validation", x=normal(200, seed=2)).raise_for_status()
    for split, count in (("train", 20), ("validation", 40)):
        windows = odd(count, seed=count)
        served.upload(name, split=split, x=windows, label=np.ones(count, int)).raise_for_status()
    served.train(name, **JOB)
    return name


def version(served: Served, name: str, number: int = 2) -> dict[str, Any]:
    found: dict[str, Any] = served.http.get(f"/v1/models/{name}/versions/{number}").json()
    return found


def predicted(served: Served, name: str, windows: np.ndarray) -> list[dict[str, Any]]:
    instances = [{"inputs": {"x": window.tolist()}} for window in windows]
    answer = served.http.post(f"/v1/models/{name}/predict", json={"instances": instances})
    return list(answer.raise_for_status().json()["predictions"])


def test_samples_need_no_label_and_anomalous_ones_are_not_trained_on(
    served: Served, model: str
) -> None:
    described = served.http.get(f"/v1/models/{model}").json()
    assert described["target"]["classes"] == ["normal", "anomalous"]
    assert described["samples"]["unlabelled"] == 0
    made = version(served, model)
    assert made["provenance"]["train_samples"] == 380


def test_a_version_tells_anomalies_from_normal_samples(served: Served, model: str) -> None:
    made = version(served, model)
    metrics = made["metrics"]
    assert made["promoted"], made["reason"]
    assert "validation auroc went from" in made["reason"]
    assert metrics["auroc"] > 0.95
    assert metrics["detection_rate"] > 0.8
    assert metrics["false_alarm_rate"] <= 0.01
    assert metrics["threshold"] == made["provenance"]["threshold"]
    assert made["provenance"]["threshold_samples"] == 200
    assert "threshold" not in version(served, model, 1)["metrics"]


def test_the_threshold_is_kept_by_every_file(served: Served, model: str) -> None:
    made = version(served, model)
    for variant in ("original", "int8"):
        url = f"/v1/models/{model}/versions/2/model.onnx"
        query = {} if variant == "original" else {"variant": variant}
        content = served.http.get(url, params=query).raise_for_status().content
        props = {each.key: each.value for each in onnx.load_from_string(content).metadata_props}
        assert float(props["hone.threshold"]) == made["metrics"]["threshold"]
        assert float(props["hone.false_alarm_rate"]) == 0.01


def test_predictions_are_scores_beside_the_threshold(served: Served, model: str) -> None:
    windows = np.concatenate([normal(20, seed=9), odd(20, seed=9)])
    found = predicted(served, model, windows)
    content = served.http.get(f"/v1/models/{model}/versions/2/model.onnx").content
    (given_back,) = onnxruntime.InferenceSession(content).run(None, {"x": windows})
    expected = np.square(given_back - windows).mean(axis=(1, 2))
    assert [each["score"] for each in found] == pytest.approx(expected.tolist(), rel=1e-5)
    alarms = [each["anomaly"] for each in found]
    assert alarms == [each["score"] > each["threshold"] for each in found]
    assert sum(alarms[:20]) <= 2
    assert sum(alarms[20:]) >= 16
    threshold = version(served, model)["metrics"]["threshold"]
    assert {each["threshold"] for each in found} == {threshold}


def test_versions_are_compared_by_how_normal_samples_are_given_back(
    served: Served, model: str
) -> None:
    url = f"/v1/models/{model}/versions/1/comparison/2"
    found = served.http.get(url).raise_for_status().json()
    assert found["by"] == "loss"
    assert found["better"]["total"] > 190
    odd_ones = served.http.get(f"/v1/models/{model}/samples", params={"label": "1"}).json()
    told = {entry["id"] for side in ("worse", "better") for entry in found[side]["items"]}
    assert not told & {entry["id"] for entry in odd_ones["items"]}


def test_kept_inputs_wait_for_a_label_the_highest_scores_first(served: Served, model: str) -> None:
    windows = np.concatenate([normal(2, seed=20), odd(1, seed=21)])
    instances = [{"inputs": {"x": window.tolist()}} for window in windows]
    url = f"/v1/models/{model}"
    kept = served.http.post(f"{url}/predict?keep=true", json={"instances": instances}).json()
    query = {"unlabelled": "true", "order": "uncertainty"}
    ranked = served.http.get(f"{url}/samples", params=query).json()["items"]
    assert ranked[0]["id"] == kept["ids"][2]
    score = kept["predictions"][2]["score"]
    assert ranked[0]["uncertainty"] == pytest.approx(score, rel=1e-5)
    served.http.delete(f"{url}/samples", params={"unlabelled": "true"}).raise_for_status()


def test_the_rate_of_false_alarms_sets_the_threshold(served: Served, model: str) -> None:
    rate = 0.1
    job = served.train(model, max_steps=1, false_alarm_rate=rate)
    made = version(served, model, job["version"])
    assert made["metrics"]["false_alarm_rate"] == pytest.approx(rate, abs=0.006)
    assert made["provenance"]["false_alarm_rate"] == rate


def test_a_label_that_is_taken_away_leaves_a_normal_sample(served: Served) -> None:
    name, shape = "relabelled", (LENGTH, CHANNELS)
    served.register(name, series_model(shape, shape), loss="reconstruction", classes=["ok", "odd"])
    answer = served.upload(name, x=normal(1, seed=1), label=np.array(["odd"]))
    url = f"/v1/models/{name}/samples/{answer.json()['ids'][0]}"
    assert served.http.get(url).json()["label"] == 1
    assert served.http.patch(url, json={"label": None}).json()["label"] == 0
    assert served.http.patch(url, json={"label": "odd"}).json()["label"] == 1
    refused = served.http.patch(url, json={"label": "broken"})
    assert refused.status_code == 422
    assert "not one of the model's classes: 'ok', 'odd'" in refused.text


def test_without_anomalous_samples_versions_are_compared_by_their_error(served: Served) -> None:
    name, shape = "never-odd", (LENGTH, CHANNELS)
    served.register(name, series_model(shape, shape), loss="reconstruction")
    for split, seed in (("train", 1), ("validation", 2)):
        served.upload(name, split=split, x=normal(60, seed=seed)).raise_for_status()
    answer = predicted(served, name, normal(1, seed=3))
    assert answer[0]["score"] > 0
    assert (answer[0]["threshold"], answer[0]["anomaly"]) == (None, None)
    job = served.train(name, **{**JOB, "epochs": 5})
    made = version(served, name)
    assert made["reason"].startswith("promoted: validation loss went from")
    assert made["metrics"]["auroc"] is None
    (warning,) = (each for each in job["metrics"]["warnings"] if "false_alarm_rate" in each)
    assert "60 normal validation samples, too few for a false_alarm_rate of 0.01" in warning


def test_a_threshold_that_has_drifted_is_told(served: Served, model: str) -> None:
    before = served.http.get(f"/v1/models/{model}/drift").json()
    assert before["drifted"] is None
    rng = np.random.default_rng(5)
    # Noise has the mean, deviation and change of the windows, but not their course.
    windows = normal(60, seed=6)
    shuffled = rng.permuted(windows, axis=1)
    served.upload(model, split="train", x=shuffled).raise_for_status()
    found = served.http.get(f"/v1/models/{model}/drift").json()
    (score,) = (feature for feature in found["features"] if feature["input"] == "score")
    assert found["drifted"]
    assert score["name"] == "above the threshold"
    assert score["training_mean"] < 0.2 < score["recent_mean"]
    assert score["psi"] > score["limit"]


@pytest.mark.parametrize(
    ("model_shape", "spec", "reason"),
    [
        ((3,), {}, "their rows have the shapes [3] and [8, 2]; export a model that gives its"),
        ((8, 2), {"classes": ["a", "b", "c"]}, "name two classes, the normal and the anomalous"),
        ((8, 2), {"hyperparameters": {"false_alarm_rate": 1}}, "less than 1"),
    ],
    ids=["another shape", "three classes", "a rate of 1"],
)
def test_models_that_give_nothing_back_are_refused(
    served: Served, model_shape: tuple[int, ...], spec: dict[str, Any], reason: str
) -> None:
    body = json.dumps({"name": "refused", "loss": "reconstruction", **spec})
    files = {"model": ("m.onnx", series_model((LENGTH, CHANNELS), model_shape))}
    refused = served.http.post("/v1/models", data={"spec": body}, files=files)
    assert refused.status_code == 422
    assert reason in refused.text


def embedding() -> bytes:
    """How far eight figures of a window are from their means over normal ones; no bias."""
    rng = np.random.default_rng(0)
    values = {
        "w0": rng.standard_normal((LENGTH * CHANNELS, 24)) / 4,
        "w1": rng.standard_normal((24, 8)) / 5,
    }
    hidden = np.maximum(normal(200, seed=7).reshape(200, -1) @ values["w0"], 0) @ values["w1"]
    values["prototype"] = hidden.mean(axis=0)
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("MatMul", ["flat", "w0"], ["wide"]),
        helper.make_node("Relu", ["wide"], ["above"]),
        helper.make_node("MatMul", ["above", "w1"], ["embedding"]),
        helper.make_node("Sub", ["embedding", "prototype"], ["distance"]),
    ]
    shapes = {"x": ("batch", LENGTH, CHANNELS), "distance": ("batch", 8)}
    described = {
        name: helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in shapes.items()
    }
    stored = [numpy_helper.from_array(v.astype(np.float32), name) for name, v in values.items()]
    graph = helper.make_graph(nodes, "g", [described["x"]], [described["distance"]], stored)
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


@pytest.mark.parametrize("trainable", [["w0", "w1"], ["w1"]], ids=["whole", "frozen encoder"])
def test_a_distance_from_a_prototype_is_a_score_as_well(
    served: Served, trainable: list[str]
) -> None:
    name = f"embedded-{len(trainable)}"
    answer = served.register(name, embedding(), loss="one_class", trainable=trainable)
    assert answer["parameters"]["names"] == trainable
    cut = "above" if trainable == ["w1"] else "flat"
    assert any(note.startswith(f"cut at {cut}:") for note in answer["notes"]), answer["notes"]
    served.upload(name, split="train", x=normal(380, seed=1)).raise_for_status()
    served.upload(name, split="validation", x=normal(200, seed=2)).raise_for_status()
    windows = odd(40, seed=40)
    served.upload(name, split="validation", x=windows, label=np.ones(40, int)).raise_for_status()
    job = served.train(name, **JOB)
    assert not any("training samples are of class" in each for each in job["metrics"]["warnings"])
    made = version(served, name)
    content = served.http.get(f"/v1/models/{name}/versions/2/model.onnx").content
    (distances,) = onnxruntime.InferenceSession(content).run(None, {"x": windows})
    found = [each["score"] for each in predicted(served, name, windows)]
    assert found == pytest.approx(np.square(distances).mean(axis=1).tolist(), rel=1e-5)
    assert made["metrics"]["auroc"] > made["baseline"]["auroc"] + 0.1
