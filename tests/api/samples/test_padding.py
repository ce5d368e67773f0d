"""Padding of sequences: neither what is measured nor what is trained counts it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from graph_parts import normal
from onnx import TensorProto, helper, numpy_helper
from support import Served

LENGTH, FEATURES, CLASSES = 12, 4, 3
PADDING = 2
"""A class that only padding has, where it is not the label -100."""
node = helper.make_node


def tagger(bias: Any = (0, 0, 0), *, knows: bool = False) -> bytes:
    """`x` (batch, 12, 4) → `logits` (batch, 3, 12). knows: whether it tells 0 and 1 apart."""
    weights = np.zeros((FEATURES, CLASSES), np.float32)
    weights[0] = [4, -4, 0]
    numbers = {
        "w": weights if knows else 0.1 * normal(FEATURES, CLASSES),
        "b": np.array(bias, np.float32),
    }
    graph = helper.make_graph(
        [
            node("MatMul", ["x", "w"], ["h"], name="head"),
            node("Add", ["h", "b"], ["g"], name="bias"),
            node("Transpose", ["g"], ["logits"], name="turn", perm=[0, 2, 1]),
        ],
        "tagger",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", LENGTH, FEATURES])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", CLASSES, LENGTH])],
        [numpy_helper.from_array(array, name) for name, array in numbers.items()],
    )
    opset = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString()


def sequences(count: int, seed: int, *, padding: int) -> dict[str, np.ndarray]:
    """Sequences of 2 to 5 positions; the class of each is the sign of its first number."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, LENGTH, FEATURES)).astype(np.float32)
    label = (x[:, :, 0] < 0).astype(np.int64)
    is_padding = np.arange(LENGTH) >= rng.integers(2, 6, count)[:, None]
    x[is_padding], label[is_padding] = 0, padding
    return {"x": x, "label": label}


def registered(served: Served, name: str, model: bytes, *, padding: int, **spec: Any) -> str:
    served.register(name, model, **spec)
    for split, count in (("train", 120), ("validation", 40)):
        data = sequences(count, count, padding=padding)
        served.upload(name, split=split, **data).raise_for_status()
    return name


def predicted(served: Served, name: str, x: np.ndarray, version: int) -> np.ndarray:
    content = served.http.get(f"/v1/models/{name}/versions/{version}/model.onnx").content
    logits: np.ndarray = onnxruntime.InferenceSession(content).run(None, {"x": x})[0]
    return logits


@pytest.mark.parametrize(
    ("padding", "spec"),
    [(-100, {}), (PADDING, {"hyperparameters": {"ignore_index": PADDING}})],
    ids=["label", "class"],
)
def test_what_is_measured_is_that_of_the_positions_that_count(
    padding: int, spec: dict[str, Any], served: Served
) -> None:
    name = registered(served, f"padded-{padding}", tagger(), padding=padding, **spec)
    job = served.train(name, seed=1)
    assert "learning_rate" in job["choices"]
    assert not {"class_weights", "label_smoothing"} & job["choices"].keys()
    made = served.http.get(f"/v1/models/{name}/versions/2").json()
    data = sequences(40, 40, padding=padding)
    logits = predicted(served, name, data["x"], 2).astype(float)
    counted = data["label"] != padding
    right = (logits.argmax(axis=1) == data["label"])[counted].mean()
    logs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    truth = np.where(counted, data["label"], 0)[:, None]
    loss = -np.take_along_axis(logs, truth, axis=1)[:, 0][counted].mean()
    for metrics in (made["metrics"], job["metrics"]["validation"]):
        assert metrics["accuracy"] == pytest.approx(right)
        assert metrics["loss"] == pytest.approx(loss, rel=1e-4)
        assert np.sum(metrics["confusion_matrix"]) == counted.sum()
    assert right > 0.9
    interval = made["verdict"]["validation"]
    assert interval["gain"] == pytest.approx(np.mean(interval["interval"]), abs=0.1)
    assert made["promoted"], made["reason"]


def test_a_class_to_ignore_trains_as_the_label_for_positions_that_do_not_count(
    served: Served,
) -> None:
    given = {"hyperparameters": {"ignore_index": PADDING}}
    asked = {"epochs": 3, "learning_rate": 0.05, "batch_size": 16, "seed": 1}
    found = []
    for name, padding, spec in (("by-label", -100, {}), ("by-class", PADDING, given)):
        registered(served, name, tagger(), padding=padding, **spec)
        job = served.train(name, **asked)
        content = served.http.get(f"/v1/models/{name}/versions/2/model.onnx").content
        graph = onnx.load_model_from_string(content).graph
        weights = {each.name: numpy_helper.to_array(each) for each in graph.initializer}
        made = served.http.get(f"/v1/models/{name}/versions/2").json()
        found.append((weights, job["metrics"]["validation"], made["metrics"]))
    for each in ("w", "b"):
        np.testing.assert_array_equal(found[0][0][each], found[1][0][each])
    assert found[0][1:] == found[1][1:]


@pytest.mark.parametrize(
    "options",
    [{}, {"distillation": 0.5}, {"label_smoothing": 0.1, "class_weights": [1.0, 2.0, 1.0]}],
    ids=["plain", "distilled", "weighted"],
)
def test_what_stands_at_padding_changes_nothing(
    served: Served, options: dict[str, Any], request: pytest.FixtureRequest
) -> None:
    found = []
    for value in (0, 5):
        name = f"at-padding-{request.node.callspec.id}-{value}"
        served.register(name, tagger())
        for split, count in (("train", 60), ("validation", 20)):
            data = sequences(count, count, padding=-100)
            data["x"][data["label"] == -100] = value
            served.upload(name, split=split, **data).raise_for_status()
        served.train(name, epochs=2, learning_rate=0.05, batch_size=16, seed=1, **options)
        content = served.http.get(f"/v1/models/{name}/versions/2/model.onnx").content
        graph = onnx.load_model_from_string(content).graph
        found.append({each.name: numpy_helper.to_array(each) for each in graph.initializer})
    for each in ("w", "b"):
        np.testing.assert_allclose(found[0][each], found[1][each], rtol=1e-6)


def test_a_version_that_has_lost_padding_alone_is_no_worse(served: Served) -> None:
    """Training at the other positions makes the class of padding unlikely everywhere."""
    model = tagger(bias=(0, 0, 0.3), knows=True)
    spec = {"hyperparameters": {"ignore_index": PADDING}}
    name = registered(served, "lost-padding", model, padding=PADDING, **spec)
    job = served.train(name, epochs=10, learning_rate=0.02, seed=1)
    data = sequences(40, 40, padding=PADDING)
    is_padding = data["label"] == PADDING
    before, after = (predicted(served, name, data["x"], n).argmax(axis=1) for n in (1, 2))
    assert (before == PADDING)[is_padding].all()
    assert not (after == PADDING)[is_padding].any()
    made = served.http.get(f"/v1/models/{name}/versions/{job['version']}").json()
    assert made["promoted"], made["reason"]
    assert made["metrics"]["accuracy"] >= made["baseline"]["accuracy"] > 0.9
    shown = served.http.get(f"/v1/models/{name}/versions/1/comparison/2").json()
    assert (shown["worse"]["total"], shown["samples"]) == (0, 40)


def test_samples_of_padding_alone_are_left_out(served: Served) -> None:
    name = registered(served, "all-padding", tagger(), padding=-100)
    empty = sequences(5, 1, padding=-100)
    empty["label"][:] = -100
    empty["x"] += 7  # else they would be duplicates
    for split in ("train", "validation"):
        empty["x"] += 1
        served.upload(name, split=split, **empty).raise_for_status()
    job = served.train(name, epochs=1)
    assert job["metrics"]["validation"]["samples"] == 40
    made = served.http.get(f"/v1/models/{name}/versions/2").json()
    assert (made["metrics"]["samples"], made["provenance"]["train_samples"]) == (40, 120)


def test_other_labels_below_0_are_refused_with_what_is_right(served: Served) -> None:
    served.register("strict", tagger())
    sample = {
        "inputs": {"x": np.zeros((LENGTH, FEATURES)).tolist()},
        "label": [0, 2] + [-1] * (LENGTH - 2),
    }
    answer = served.http.post("/v1/models/strict/samples", json=sample)
    (fault,) = answer.json()["errors"]
    assert fault["detail"] == (
        "label -1 at [2] is out of range; the model has classes 0 to 2, and -100 is for positions "
        "that do not count"
    )
    sample["label"] = [0] * 3 + [-100] * (LENGTH - 3)
    assert served.http.post("/v1/models/strict/samples", json=sample).status_code == 201
    kept = served.http.get("/v1/models/strict/samples").json()["items"][0]["label"]
    assert kept == sample["label"]
    answer = served.http.post("/v1/models/strict/jobs", json={"ignore_index": -3})
    assert answer.json()["errors"][0]["pointer"] == "/ignore_index"
