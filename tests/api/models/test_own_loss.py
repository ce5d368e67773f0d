"""A model that computes its loss itself: registered, trained, measured, fetched, asked."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
import pytest
from graph_parts import normal
from onnx import TensorProto, helper
from own_losses import FEATURES, OUTPUTS, own_loss, squared
from support import Served, wait_until

OWN = {"loss": {"output": "loss"}}
SAMPLES = 60


@pytest.fixture(scope="module")
def regression(served: Served) -> str:
    served.register("own", own_loss(*squared()).SerializeToString(), **OWN)
    x = normal(SAMPLES, FEATURES, seed=6)
    t = x[:, :OUTPUTS] * 0.5
    for split, rows in (("train", slice(0, 40)), ("validation", slice(40, None))):
        served.upload("own", split=split, x=x[rows], label=t[rows]).raise_for_status()
    return "own"


def test_the_model_says_its_loss_and_its_label(served: Served, regression: str) -> None:
    shown = served.http.get(f"/v1/models/{regression}").json()
    assert shown["loss"] == {"output": "loss"}
    assert [value["name"] for value in shown["inputs"]] == ["x"]
    assert (shown["target"]["name"], shown["target"]["shape"]) == ("t", [OUTPUTS])
    assert shown["gate"]["metric"] == "loss"


def test_a_job_lowers_the_loss_and_the_gate_measures_it(served: Served, regression: str) -> None:
    job = served.train(regression, epochs=5, learning_rate=0.02, batch_size=8)
    metrics = job["metrics"]
    assert metrics["validation"].keys() == {"samples", "loss"}
    assert metrics["validation"]["loss"] < metrics["baseline"]["loss"]
    version = served.http.get(f"/v1/models/{regression}/versions/{job['version']}").json()
    assert version["promoted"], version["reason"]
    assert "validation loss went from" in version["reason"]
    assert version["baseline"]["loss"] == pytest.approx(metrics["baseline"]["loss"], rel=1e-5)
    assert version["metrics"]["loss"] == pytest.approx(metrics["validation"]["loss"], rel=1e-5)
    again = served.train(regression, epochs=1, learning_rate=1e-4, batch_size=8)
    later = served.http.get(f"/v1/models/{regression}/versions/{again['version']}").json()
    assert later["baseline"]["loss"] == pytest.approx(version["metrics"]["loss"], rel=1e-5)


def test_apps_get_and_ask_models_without_loss_and_label(served: Served, regression: str) -> None:
    x = normal(1, FEATURES, seed=9)
    for path in ("versions/1", "latest"):
        content = served.http.get(f"/v1/models/{regression}/{path}/model.onnx").content
        graph = onnx.load_model_from_string(content).graph
        assert [value.name for value in graph.input] == ["x"]
        assert [value.name for value in graph.output] == ["y"]
    asked = {"instances": [{"inputs": {"x": x[0].tolist()}}]}
    answer = served.http.post(f"/v1/models/{regression}/predict", json=asked)
    assert answer.status_code == 200, answer.text


def test_variants_are_refused_since_they_could_not_be_measured(
    served: Served, regression: str
) -> None:
    path = f"/v1/models/{regression}/versions/1/model.onnx"

    def refused() -> dict[str, Any] | None:
        answer = served.http.get(path, params={"variant": "ort"}).json()
        return None if answer["code"] == "variant_not_ready" else answer

    answer = wait_until(refused, "the variant to be refused")
    assert answer["code"] == "variant_refused"
    assert "computes its loss itself" in answer["detail"]


def test_samples_of_a_loss_without_a_label_need_none(served: Served) -> None:
    tail = [
        helper.make_node("Mul", ["y", "y"], ["square"], name="square"),
        helper.make_node("ReduceMean", ["square"], ["loss"], name="mean", keepdims=0),
    ]
    model = own_loss(*tail, label=None).SerializeToString()
    shown = served.register("unsupervised", model, **OWN)
    assert shown["target"]["shape"] == [0]
    x = normal(20, FEATURES, seed=7)
    served.upload("unsupervised", split="train", x=x[:10]).raise_for_status()
    served.upload("unsupervised", split="validation", x=x[10:]).raise_for_status()
    counts = served.http.get("/v1/models/unsupervised").json()["samples"]
    assert counts == {"train": 10, "validation": 10, "unlabelled": 0, "base": 0}
    job = served.train("unsupervised", epochs=2, learning_rate=0.05, batch_size=4)
    assert job["metrics"]["validation"]["loss"] < job["metrics"]["baseline"]["loss"]
    path = "/v1/models/unsupervised/samples"
    refused = served.http.post(path, json={"inputs": {"x": x[0].tolist()}, "label": 1})
    assert refused.json()["errors"][0]["detail"] == (
        "label: the model's loss takes none; leave it out"
    )
    assert served.offer("unsupervised", x=x, label=np.zeros(20)).status_code == 422


def test_labels_of_integers_that_are_no_classes_are_kept(served: Served) -> None:
    tail = [helper.make_node("Cast", ["t"], ["u"], name="cast", to=TensorProto.FLOAT), *squared()]
    tail[1].input[1] = "v_u"
    tail.insert(1, helper.make_node("Unsqueeze", ["u", "axis"], ["v_u"], name="column"))
    model = own_loss(
        *tail, label=("batch",), label_type=TensorProto.INT64, constants={"axis": np.array([1])}
    )
    served.register("whole", model.SerializeToString(), **OWN)
    x = normal(6, FEATURES, seed=8)
    sample: dict[str, Any] = {"inputs": {"x": x[0].tolist()}, "label": -7, "split": "train"}
    first = served.http.post("/v1/models/whole/samples", json=sample).json()["ids"][0]
    assert served.http.get(f"/v1/models/whole/samples/{first}").json()["label"] == -7
    served.upload("whole", split="train", x=x[1:], label=np.arange(5) - 2).raise_for_status()
    assert served.http.get("/v1/models/whole").json()["samples"]["train"] == 6
    assert served.train("whole", max_steps=2)["state"] == "succeeded"


def test_what_is_wrong_with_the_loss_is_told_at_its_place(served: Served) -> None:
    model = own_loss(*squared()).SerializeToString()

    def places(loss: Any) -> list[str]:
        answer = served.http.post(
            "/v1/models",
            data={"spec": json.dumps({"name": "wrong", "loss": loss})},
            files={"model": ("model.onnx", model)},
        )
        assert answer.status_code == 422, answer.text
        return [error["pointer"] for error in answer.json()["errors"]]

    assert places({"output": "lost"}) == ["/spec/loss/output"]
    assert places({"name": "loss"}) == ["/spec/loss/output", "/spec/loss/name"]
    assert places("output") == ["/spec/loss"]
