"""A class and a number together: a model's own loss with an input for each, labelled by name."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from own_losses import FEATURES, own_loss
from support import Served

OWN = {"loss": {"output": "loss"}}
NAMES = ["kind", "size"]
URL = "/v1/models/fruit"


def fruit(*, size: tuple[str | int, ...] = ("batch", 1)) -> bytes:
    """Two logits of `kind`, and a `size`; what is not known adds nothing to the loss."""
    node = helper.make_node
    tail = [
        node("Slice", ["y", "zero", "two", "one"], ["logits"], name="logits"),
        node("Slice", ["y", "two", "three", "one"], ["number"], name="number"),
        node(
            "SoftmaxCrossEntropyLoss",
            ["logits", "kind"],
            ["of_kind"],
            name="of_kind",
            reduction="none",
            ignore_index=-100,
        ),
        node("IsNaN", ["size"], ["unknown"], name="unknown"),
        node("Sub", ["number", "size"], ["error"], name="error"),
        node("Where", ["unknown", "nothing", "error"], ["counted"], name="counted"),
        node("Mul", ["counted", "counted"], ["square"], name="square"),
        node("ReduceSum", ["square", "one"], ["of_size"], name="of_size", keepdims=0),
        node("Add", ["of_kind", "of_size"], ["loss"], name="loss"),
    ]
    numbers = {name: np.array([at]) for at, name in enumerate(("zero", "one", "two", "three"))}
    numbers["nothing"] = np.zeros(1, np.float32)
    model = own_loss(*tail, loss=["batch"], label=None, constants=numbers)
    for name, kind, shape in (
        ("kind", TensorProto.INT64, ("batch",)),
        ("size", TensorProto.FLOAT, size),
    ):
        model.graph.input.append(helper.make_tensor_value_info(name, kind, shape))
    content: bytes = model.SerializeToString()
    return content


def samples(count: int) -> list[dict[str, Any]]:
    """The kind is the sign of x0, the size x1; every third sample knows but one of them."""
    x = np.random.default_rng(3).normal(size=(count, FEATURES)).round(3)
    made = []
    for place, row in enumerate(x.tolist()):
        label = {"kind": int(row[0] > 0), "size": row[1]}
        if place % 3 == 0:
            del label[NAMES[place % 2]]
        split = "train" if place % 4 else "validation"
        made.append({"inputs": {"x": row}, "label": label, "split": split})
    return made


def test_a_class_and_a_number_are_labelled_by_name_and_learned_together(served: Served) -> None:
    model = served.register("fruit", fruit(), classes=NAMES, **OWN)
    assert [value["name"] for value in model["inputs"]] == ["x"]
    assert (model["target"]["classes"], model["target"]["shape"]) == (NAMES, [2])
    stored = served.http.post(f"{URL}/samples", json={"samples": samples(240)})
    first, _ = stored.raise_for_status().json()["ids"]
    known = served.http.get(f"{URL}/samples/{first}").json()["label"]
    assert known["kind"] is None
    late = served.http.patch(f"{URL}/samples/{first}", json={"label": {"kind": 1}})
    assert late.json()["label"] == known | {"kind": 1}

    job = served.train("fruit", epochs=40, learning_rate=0.02, seed=1)
    version = served.http.get(f"{URL}/versions/{job['version']}").json()
    assert version["promoted"], version["reason"]
    assert version["metrics"]["loss"] < version["baseline"]["loss"] / 4
    content = served.http.get(f"{URL}/latest/model.onnx").content
    graph = onnx.load_model_from_string(content).graph
    assert [value.name for value in graph.input] == ["x"]
    asked = {"inputs": {"x": [1.5, 0.5, *[0] * (FEATURES - 2)]}}
    (answer,) = served.http.post(f"{URL}/predict", json=asked).json()["predictions"]
    no, yes, size = answer["values"]
    assert yes > no
    assert abs(size - 0.5) < 0.4


def test_a_class_that_the_model_does_not_have_ends_the_job_with_what_to_mend(
    served: Served,
) -> None:
    served.register("fruitless", fruit(), classes=NAMES, **OWN)
    made = samples(40)
    made[1]["label"]["kind"] = 9
    served.http.post("/v1/models/fruitless/samples", json={"samples": made}).raise_for_status()
    job = served.wait_for_job(served.ask_for_job("fruitless", epochs=2, seed=1)["id"])
    assert job["error"]["code"] == "samples_invalid"
    assert "nothing at an index that a label or an input" in job["error"]["detail"]


def test_inputs_that_are_not_named_or_no_single_numbers_are_refused(served: Served) -> None:
    for model, spec in ((fruit(), {}), (fruit(size=("batch", 2)), {"classes": NAMES})):
        body = json.dumps({"name": "unnamed-fruit", **OWN, **spec})
        files = {"model": ("model.onnx", model)}
        answer = served.http.post("/v1/models", data={"spec": body}, files=files)
        assert answer.status_code == 422
        assert any(
            "name them in spec.classes" in error["detail"] for error in answer.json()["errors"]
        )
