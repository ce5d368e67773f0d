"""A file is diagnosed before it is registered: what trains, what does not, and what to choose."""

from __future__ import annotations

import json
from typing import Any

import httpx
import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from own_losses import own_loss, renamed, squared
from pictures import image_model
from support import Served, mlp


def diagnose(served: Served, model: bytes, **spec: Any) -> httpx.Response:
    return served.http.post(
        "/v1/diagnosis",
        data={"spec": json.dumps(spec)} if spec else {},
        files={"model": ("model.onnx", model)},
    )


def graph_of(nodes: list[Any], weights: dict[str, Any], *, row: int, outputs: list[Any]) -> bytes:
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, ["batch", row])],
        [value(name, TensorProto.FLOAT, shape) for name, shape in outputs],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    model.metadata_props.add(key="names", value="{0: 'dark', 1: 'bright'}")
    content: bytes = model.SerializeToString()
    return content


def test_a_file_says_what_trains_before_it_is_registered(served: Served) -> None:
    before = served.http.get("/v1/models").json()["items"]

    found = diagnose(served, image_model()).json()

    assert found["ready"] is True
    assert found["inputs"] == [{"name": "image", "dtype": "float32", "shape": [1, 8, 8]}]
    assert (found["loss"], found["target"]["num_classes"]) == ("cross_entropy", 2)
    assert found["suggested"]["preprocess"] == [{"kind": "image", "channels": "gray"}]
    assert found["head"]["classes"] == 2
    items = {entry["name"]: entry for entry in found["parameters"]["items"]}
    assert all(entry["trains"] for entry in items.values())
    assert sum(entry["count"] for entry in items.values()) == found["parameters"]["trainable"]
    assert served.http.get("/v1/models").json()["items"] == before


def test_what_is_frozen_says_why_and_where_it_is_cut(served: Served) -> None:
    found = diagnose(served, mlp(64, 256, 4), trainable="head").json()

    items = {entry["name"]: entry for entry in found["parameters"]["items"]}
    frozen = [entry for entry in items.values() if not entry["trains"]]
    assert {each["why_not"] for each in frozen} == {"frozen"}
    assert all(each["below"] for each in frozen)
    assert found["cut"]["parameters"] == found["parameters"]["frozen"] == 64 * 256 + 256


def test_probabilities_are_trained_by_the_logits_before_them(served: Served) -> None:
    model = graph_of(
        [
            helper.make_node("MatMul", ["x", "w"], ["scores"], name="product"),
            helper.make_node("Softmax", ["scores"], ["p"], name="likely"),
        ],
        {"w": np.ones((4, 2), np.float32)},
        row=4,
        outputs=[("p", ["batch", 2])],
    )

    found = diagnose(served, model).json()

    assert found["ready"] is True, found["problems"]
    assert found["suggested"]["output"] == found["output"] == "scores"
    assert 'node "likely" (Softmax)' in found["suggested"]["because"]
    assert found["target"]["classes"] == ["dark", "bright"]


def classifier(last: str, *after: onnx.NodeProto) -> bytes:
    """Scores, `last`, and what scikit-learn's converter writes after it."""
    content = graph_of(
        [
            helper.make_node("MatMul", ["x", "w"], ["scores"], name="product"),
            helper.make_node(last, ["scores"], ["p"], name="likely"),
            *after,
        ],
        {"w": np.ones((4, 2), np.float32), "one": np.ones(1, np.float32), "count": np.array([1])},
        row=4,
        outputs=[(after[-1].output[0], ["batch", None])],
    )
    model = onnx.load_model_from_string(content)
    if after[-1].op_type == "ZipMap":
        number = helper.make_tensor_type_proto(TensorProto.FLOAT, [])
        by_class = helper.make_map_type_proto(TensorProto.INT64, number)
        model.graph.output[0].type.CopyFrom(helper.make_sequence_type_proto(by_class))
        model.opset_import.append(helper.make_opsetid("ai.onnx.ml", 1))
    written: bytes = model.SerializeToString()
    return written


MAPS = helper.make_node(
    "ZipMap", ["p"], ["maps"], name="zip", domain="ai.onnx.ml", classlabels_int64s=[0, 1]
)
PAIR = (
    helper.make_node("Sub", ["one", "p"], ["rest"], name="rest"),
    helper.make_node("Concat", ["rest", "p"], ["both"], name="both", axis=1),
)
BEST = helper.make_node("TopK", ["p", "count"], ["best", "classes"], name="best")


@pytest.mark.parametrize(
    ("model", "loss"),
    [
        (classifier("Softmax", MAPS), "cross_entropy"),
        (classifier("Sigmoid", *PAIR), "bce_with_logits"),
        (classifier("Softmax", BEST), "cross_entropy"),
    ],
    ids=["maps", "pair", "best"],
)
def test_a_classifier_that_ends_in_probabilities_is_trained_by_its_scores(
    served: Served, model: bytes, loss: str
) -> None:
    diagnosis = diagnose(served, model).json()

    assert diagnosis["ready"] is True, diagnosis["problems"]
    assert (diagnosis["suggested"]["loss"], diagnosis["output"]) == (loss, "scores")


def test_an_output_that_is_no_tensor_cannot_be_the_one_that_trains(served: Served) -> None:
    diagnosis = diagnose(served, classifier("Softmax", MAPS), output="maps").json()

    detail = '"maps" is no tensor; name a float32 tensor, the logits for example'
    assert diagnosis["problems"] == [{"pointer": "/spec/output", "detail": detail}]


@pytest.mark.parametrize("spec", [{}, {"output": "y"}])
@pytest.mark.parametrize(
    ("loss", "label", "axes"),
    [("loss", "t", None), ("loss", "t", [1]), ("score", "labels", [1]), ("score", "target", None)],
)
def test_a_loss_of_the_models_own_is_suggested_whatever_its_output(
    served: Served, loss: str, label: str, axes: list[int] | None, spec: dict[str, Any]
) -> None:
    model = own_loss(*squared(axes=axes), loss=["batch"] if axes else [])
    found = diagnose(served, renamed(model, {"loss": loss, "t": label}), **spec).json()

    assert found["ready"] is True, found["problems"]
    assert found["suggested"]["loss"] == {"output": loss}
    assert found["suggested"]["output"] == found["output"] == "y"
    assert found["target"]["shape"] == [3]


def test_one_number_a_sample_is_no_loss_unless_its_names_say_so(served: Served) -> None:
    model = own_loss(*squared(axes=[1]), loss=["batch"])
    found = diagnose(served, renamed(model, {"loss": "score", "t": "other"})).json()

    assert found["suggested"]["loss"] != {"output": "score"}


def test_a_loss_without_another_output_asks_for_one(served: Served) -> None:
    model = own_loss(*squared(), outputs=["loss"])
    found = diagnose(served, model.SerializeToString()).json()

    assert found["suggested"]["loss"] == {"output": "loss"}
    assert [problem["pointer"] for problem in found["problems"]] == ["/spec/output"]


def test_a_refused_operator_is_named_and_the_rest_is_told(served: Served) -> None:
    model = graph_of(
        [
            helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
            helper.make_node("RandomNormalLike", ["a"], ["noise"], name="dice"),
            helper.make_node("Add", ["a", "noise"], ["y"], name="sum"),
        ],
        {"w": np.ones((4, 3), np.float32), "ids": np.ones((5, 4), np.int64)},
        row=4,
        outputs=[("y", ["batch", 3])],
    )

    answer = diagnose(served, model, loss="mse")

    assert answer.status_code == 200, answer.text
    found = answer.json()
    assert found["ready"] is False
    assert [(each["node"], each["operator"]) for each in found["refused"]] == [
        ("dice", "RandomNormalLike")
    ]
    items = {entry["name"]: entry for entry in found["parameters"]["items"]}
    assert items["w"]["trains"] is True
    registered = served.http.post(
        "/v1/models",
        data={"spec": json.dumps({"name": "dice", "loss": "mse"})},
        files={"model": ("model.onnx", model)},
    )
    assert registered.json()["errors"] == found["problems"]


def test_what_else_is_wrong_with_the_spec_is_told_with_the_graph(served: Served) -> None:
    served.register("taken", mlp(4, 3))

    found = diagnose(
        served, mlp(4, 3), name="taken", loss="cross_entropy", preprocess={"kind": "image"}
    ).json()

    pointers = {problem["pointer"] for problem in found["problems"]}
    assert "/spec/name" in pointers
    assert any(pointer.startswith("/spec/preprocess") for pointer in pointers), found["problems"]
    assert found["target"]["num_classes"] == 3


def test_quantized_weights_say_so(served: Served) -> None:
    model = onnx.load_from_string(mlp(4, 3))
    for name in ("q", "p"):
        model.graph.initializer.append(numpy_helper.from_array(np.ones((4, 2), np.int8), name))
    model.graph.initializer.append(numpy_helper.from_array(np.array(0, np.int8), "zero"))
    scale = numpy_helper.from_array(np.array(0.1, np.float32), "scale")
    model.graph.initializer.append(scale)
    last = model.graph.output[0].name
    model.graph.node.append(helper.make_node("DequantizeLinear", ["q", "scale"], ["dq"], name="dq"))
    first = model.graph.input[0].name
    model.graph.node.append(helper.make_node("MatMul", [first, "dq"], ["side"], name="side"))
    model.graph.node.append(helper.make_node("QuantizeLinear", [first, "scale", "zero"], ["qx"]))
    product = ["qx", "scale", "zero", "p", *("scale", "zero") * 2]
    model.graph.node.append(helper.make_node("QLinearMatMul", product, ["unread"]))
    model.graph.node.append(helper.make_node("ReduceSum", ["side"], ["sum"], name="sum"))
    model.graph.node.append(helper.make_node("Add", [last, "sum"], ["end"], name="end"))
    model.graph.output[0].name = "end"

    found = diagnose(served, model.SerializeToString()).json()

    items = {entry["name"]: entry for entry in found["parameters"]["items"]}
    assert items["q"]["why_not"] == "quantized"
    assert items["q"]["dtype"] == items["p"]["dtype"] == "int8"
    assert items["q"]["detail"] == "it is int8; adapters (lora) can train beside it"
    assert items["p"]["detail"] == "it is int8"


@pytest.mark.parametrize(
    ("model", "spec", "status", "code"),
    [
        (b"none", {}, 422, "graph_refused"),
        (mlp(4, 3), {"loss": "nonsense"}, 422, "invalid_input"),
        (mlp(4, 3), {"unknown": 1}, 422, "invalid_input"),
    ],
)
def test_what_cannot_be_read_is_refused_as_at_registration(
    served: Served, model: bytes, spec: dict[str, Any], status: int, code: str
) -> None:
    answer = diagnose(served, model, **spec)

    assert (answer.status_code, answer.json()["code"]) == (status, code)
