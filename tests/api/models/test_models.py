"""Models over HTTP."""

from __future__ import annotations

import json
from typing import Any

import httpx
import onnx
import pytest
from onnx import TensorProto, helper
from support import Served, blobs, mlp


def post(served: Served, spec: object, **files: bytes) -> httpx.Response:
    text = spec if isinstance(spec, str) else json.dumps(spec)
    return served.http.post(
        "/v1/models",
        data={"spec": text},
        files={name: (f"{name}.bin", data) for name, data in files.items()} or None,
    )


def external_data() -> bytes:
    model = onnx.load_model_from_string(mlp(3, 4, 2))
    weight = model.graph.initializer[0]
    weight.ClearField("raw_data")
    weight.data_location = TensorProto.EXTERNAL
    entry = weight.external_data.add()
    entry.key, entry.value = "location", "../../../../etc/passwd"
    return model.SerializeToString()


def test_a_registered_model_shows_its_signature_and_version_1(served: Served) -> None:
    upload = mlp(3, 4, 2)

    answer = post(
        served,
        {"name": "shown", "loss": "cross_entropy", "classes": ["cat", "dog"]},
        model=upload,
    )

    model = answer.json()
    assert answer.status_code == 201
    assert answer.headers["location"] == "/v1/models/shown"
    assert model["inputs"] == [{"name": "x", "dtype": "float32", "shape": [3]}]
    assert model["target"]["dtype"] == "int64"
    assert model["target"]["classes"] == ["cat", "dog"]
    assert model["parameters"]["trainable"] == 3 * 4 + 4 + 4 * 2 + 2
    assert model["parameters"]["frozen"] == 0
    assert model["samples"] == {"train": 0, "validation": 0, "unlabelled": 0, "base": 0}
    assert model["latest_version"] == 1
    assert served.http.get("/v1/models/shown").json() == model
    assert served.http.get("/v1/models/shown/latest/model.onnx").content == upload


def test_trainable_globs_freeze_the_rest(served: Served) -> None:
    model = served.register("frozen", mlp(3, 4, 2), trainable=["layer1.*"])

    assert model["parameters"] == {
        "trainable": 4 * 2 + 2,
        "frozen": 3 * 4 + 4,
        "names": ["layer1.weight", "layer1.bias"],
    }


WRONG_SPECS: dict[str, tuple[Any, str, str]] = {
    "no json": ("{", "/spec", "not JSON"),
    "after a mark of byte order": ('\ufeff{"loss": "mse"}', "/spec/name", "required"),
    "a name twice": ('{"name": "a", "name": "b", "loss": "mse"}', "/spec", '"name" twice'),
    "no object": ("[]", "/spec", "JSON object"),
    "no name": ({"loss": "mse"}, "/spec/name", "required"),
    "no loss": ({"name": "a"}, "/spec/loss", "required"),
    "loss": ({"name": "a", "loss": "hinge"}, "/spec/loss", "'cross_entropy'"),
    "optimizer": ({"name": "a", "loss": "mse", "optimizer": "rprop"}, "/spec/optimizer", "'adamw'"),
    "mistyped": ({"name": "a", "loss": "mse", "trainble": []}, "/spec/trainble", "not permitted"),
    "slashes": ({"name": "a/b", "loss": "cross_entropy"}, "/spec/name", "digits, dots"),
    "umlaut": ({"name": "Größe", "loss": "cross_entropy"}, "/spec/name", "letters (A to Z"),
    "dots": ({"name": "..", "loss": "cross_entropy"}, "/spec/name", "the first is"),
    "empty name": ({"name": "", "loss": "cross_entropy"}, "/spec/name", "1 to 64"),
    "rate": (
        {"name": "a", "loss": "mse", "hyperparameters": {"learning_rate": -1}},
        "/spec/hyperparameters/learning_rate",
        "greater than 0",
    ),
    "gate": (
        {"name": "a", "loss": "cross_entropy", "gate": {"metric": "recall", "label": 2}},
        "/spec/gate/label",
        "no class 2",
    ),
}


@pytest.mark.parametrize("case", WRONG_SPECS, ids=str)
def test_a_wrong_spec_is_named(served: Served, case: str) -> None:
    spec, pointer, words = WRONG_SPECS[case]

    answer = post(served, spec, model=mlp(3, 4, 2))

    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"] == pointer
    assert words in answer.json()["errors"][0]["detail"]


@pytest.mark.parametrize(
    ("upload", "spec"),
    [
        (b"", {}),
        (b"not an onnx file", {}),
        (mlp(3, 4, 2)[:-40], {}),
        (external_data(), {}),
        (mlp(3, 4, 2), {"classes": ["one", "two", "three"]}),
        (mlp(3, 4, 2), {"trainable": ["nothing.*"]}),
        (mlp(3, 4, 2), {"output": "nowhere"}),
    ],
    ids=["empty", "text", "truncated", "external data", "classes", "trainable", "output"],
)
def test_a_wrong_graph_is_refused_with_its_causes(
    served: Served, upload: bytes, spec: dict[str, object]
) -> None:
    before = served.http.get("/v1/models").json()

    answer = post(served, {"name": "refused", "loss": "cross_entropy", **spec}, model=upload)

    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"], answer.text
    assert served.http.get("/v1/models/refused").status_code == 404
    assert served.http.get("/v1/models").json() == before


def test_an_operator_that_cannot_train_is_named_with_its_node(served: Served) -> None:
    graph = helper.make_graph(
        [
            helper.make_node("Gemm", ["x", "w"], ["h"], name="layer"),
            helper.make_node("Hardmax", ["h"], ["logits"], name="choose"),
        ],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", 2])],
        [helper.make_tensor("w", TensorProto.FLOAT, [3, 2], [0.1] * 6)],
    )
    upload = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)

    answer = post(served, {"name": "no", "loss": "cross_entropy"}, model=upload.SerializeToString())

    assert answer.status_code == 422
    assert any(
        "choose" in e["detail"] and "Hardmax" in e["detail"] for e in answer.json()["errors"]
    )


@pytest.mark.parametrize("parts", [{}, {"model": b"a", "artifacts": b"b"}, {"file": b"a"}])
def test_the_form_holds_one_upload(served: Served, parts: dict[str, bytes]) -> None:
    answer = post(served, {"name": "parts", "loss": "mse"}, **parts)

    assert answer.status_code in (415, 422)


def test_the_form_holds_one_spec(served: Served) -> None:
    spec = ("spec", (None, '{"name": "twice", "loss": "cross_entropy"}'))
    upload = ("model", ("m.onnx", mlp(3, 4, 2)))
    answer = served.http.post("/v1/models", files=[spec, upload, spec])

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/spec"


def test_a_name_is_taken_once(served: Served) -> None:
    served.register("taken", mlp(3, 4, 2))

    answer = post(served, {"name": "taken", "loss": "cross_entropy"}, model=mlp(3, 4, 2))

    assert answer.status_code == 409
    assert answer.json()["code"] == "already_exists"


def test_defaults_are_merged_and_taken_away(served: Served) -> None:
    served.register("defaults", mlp(3, 4, 2), hyperparameters={"epochs": 3, "batch_size": 8})

    changed = served.http.patch(
        "/v1/models/defaults",
        json={"hyperparameters": {"batch_size": None, "learning_rate": 0.1}, "classes": ["a", "b"]},
    ).json()
    wrong = served.http.patch("/v1/models/defaults", json={"classes": ["a", "b", "c"]})

    assert changed["hyperparameters"] == {"epochs": 3, "learning_rate": 0.1}
    assert changed["target"]["classes"] == ["a", "b"]
    assert wrong.status_code == 422


def test_a_deleted_model_takes_everything_along(served: Served) -> None:
    served.register("gone", mlp(3, 4, 2))
    served.upload("gone", **blobs(50, 3, 2))
    job = served.train("gone", epochs=1)

    assert served.http.delete("/v1/models/gone").status_code == 204

    assert served.http.get("/v1/models/gone").status_code == 404
    assert served.http.get(f"/v1/jobs/{job['id']}").status_code == 404
    served.register("gone", mlp(3, 4, 2))
    assert served.http.get("/v1/models/gone/samples/stats").json()["train"] == 0


def test_lists_go_on_at_their_cursor(served: Served) -> None:
    for name in ("list-a", "list-b", "list-c"):
        served.register(name, mlp(3, 4, 2))
    names: list[str] = []
    cursor = None
    while True:
        page = served.http.get(
            "/v1/models", params={"limit": 2, **({"cursor": cursor} if cursor else {})}
        ).json()
        assert len(page["items"]) <= 2
        names += [model["name"] for model in page["items"]]
        cursor = page["next"]
        if cursor is None:
            break

    assert names == sorted(set(names))
    assert {"list-a", "list-b", "list-c"} <= set(names)
