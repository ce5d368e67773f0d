"""Predictions through a real daemon: what is answered, refused and kept."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper
from predictions import X, ask
from support import Served, blobs, mlp, npz

NPZ = {"Content-Type": "application/x-npz"}


def expected(model: bytes, x: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})[0]


def softmax(logits: np.ndarray) -> np.ndarray:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def fruit(served: Served) -> bytes:
    model = mlp(8, 16, 3)
    served.register("fruit", model, classes=["apple", "pear", "plum"])
    return model


def test_a_classifier_names_the_class_and_its_probability(served: Served, fruit: bytes) -> None:
    answer = ask(served, "fruit", *X)

    probabilities = softmax(expected(fruit, X))
    body = answer.json()
    assert (body["model"], body["version"]) == ("fruit", 1)
    assert body["classes"] == ["apple", "pear", "plum"]
    for row, prediction in enumerate(body["predictions"]):
        assert set(prediction) == {"label", "probability", "probabilities"}
        assert prediction["probabilities"] == pytest.approx(probabilities[row], abs=1e-5)
        assert prediction["label"] == body["classes"][probabilities[row].argmax()]
        assert prediction["probability"] == pytest.approx(probabilities[row].max(), abs=1e-5)


def test_one_instance_and_npz_get_the_same_answers(served: Served, fruit: bytes) -> None:
    batch = ask(served, "fruit", *X).json()["predictions"]
    url = "/v1/models/fruit/predict"
    one = served.http.post(url, json={"inputs": {"x": X[0].tolist()}}).json()
    zipped = served.http.post(url, content=npz(x=X), headers=NPZ).json()

    (alone,) = one["predictions"]
    assert alone["probabilities"] == pytest.approx(batch[0]["probabilities"], abs=1e-6)
    assert alone["label"] == batch[0]["label"]
    assert zipped["predictions"] == batch


def test_a_file_with_a_fixed_batch_predicts_any_number_of_instances(served: Served) -> None:
    model = onnx.load_model_from_string(mlp(8, 16, 3))
    for value in (model.graph.input[0], model.graph.output[0]):
        value.type.tensor_type.shape.dim[0].dim_value = 2
    served.register("pairs", model.SerializeToString())

    predictions = ask(served, "pairs", *X).json()["predictions"]

    probabilities = softmax(expected(mlp(8, 16, 3), X))
    for prediction, right in zip(predictions, probabilities, strict=True):
        assert prediction["probabilities"] == pytest.approx(right, abs=1e-5)


@pytest.mark.parametrize(("opset", "ir_version"), [(23, 8), (17, 12)])
def test_version_1_of_a_file_that_is_newer_than_the_runtime_predicts(
    served: Served, opset: int, ir_version: int
) -> None:
    model = onnx.load_model_from_string(mlp(8, 16, 3))
    model.opset_import[0].version, model.ir_version = opset, ir_version
    served.register(f"newer-{opset}", model.SerializeToString())

    predictions = ask(served, f"newer-{opset}", *X).json()["predictions"]

    for prediction, right in zip(predictions, softmax(expected(mlp(8, 16, 3), X)), strict=True):
        assert prediction["probabilities"] == pytest.approx(right, abs=1e-5)


def test_outputs_that_hold_no_numbers_are_left_out(served: Served) -> None:
    model = onnx.load_model_from_string(mlp(8, 16, 3))
    logits = model.graph.output[0]
    nodes = [
        helper.make_node("SequenceConstruct", [logits.name], ["list"], name="list"),
        helper.make_node("Cast", [logits.name], ["text"], name="text", to=TensorProto.STRING),
    ]
    model.graph.node.extend(nodes)
    tensors = helper.make_sequence_type_proto(logits.type)
    model.graph.output.append(helper.make_value_info("list", tensors))
    text = helper.make_tensor_value_info("text", TensorProto.STRING, ["batch", 3])
    model.graph.output.append(text)
    served.register("listed", model.SerializeToString(), output=logits.name)

    (prediction,) = ask(served, "listed", X[0]).json()["predictions"]

    probabilities = softmax(expected(mlp(8, 16, 3), X[:1]))[0]
    assert prediction["probabilities"] == pytest.approx(probabilities, abs=1e-5)


def test_binary_cross_entropy_gives_probabilities(served: Served) -> None:
    model = mlp(8, 4)
    served.register("tags", model, loss="bce_with_logits")

    (prediction,) = ask(served, "tags", X[0]).json()["predictions"]

    assert prediction["probabilities"] == pytest.approx(
        1 / (1 + np.exp(-expected(model, X[:1])[0]))
    )
    assert set(prediction) == {"probabilities"}


def test_regression_gives_values(served: Served) -> None:
    model = mlp(8, 2)
    served.register("heights", model, loss="mse")

    (prediction,) = ask(served, "heights", X[0]).json()["predictions"]

    assert prediction == {"values": pytest.approx(expected(model, X[:1])[0], abs=1e-5)}


def test_every_bad_instance_is_told(served: Served, fruit: bytes) -> None:
    good = X[0].tolist()
    instances = [
        {"inputs": {"x": good}},
        {"inputs": {"x": [1, 2]}},
        {"inputs": {"x": good}, "label": 1},
        {"inputs": {"x": [*good[:7], "nan"]}},
        {"inputs": {"y": good}},
        7,
    ]
    answer = served.http.post("/v1/models/fruit/predict", json={"instances": instances})

    assert answer.status_code == 422
    assert [problem["pointer"] for problem in answer.json()["errors"]] == [
        "/instances/1/inputs/x",
        "/instances/2/label",
        "/instances/3/inputs/x",
        "/instances/4/inputs/y",
        "/instances/4/inputs",
        "/instances/5",
    ]


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        (b"{", ""),
        (b'{"instances": []}', "/instances"),
        (b'{"instances": 3}', "/instances"),
        (b'{"instances": [], "more": 1}', "/more"),
        (b'{"inputs": {"x": [1]}}', "/inputs/x"),
        (b"[]", ""),
    ],
)
def test_a_body_of_another_form_is_refused(
    served: Served, fruit: bytes, body: bytes, pointer: str
) -> None:
    answer = served.http.post(
        "/v1/models/fruit/predict", content=body, headers={"Content-Type": "application/json"}
    )

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_a_bad_npz_tells_its_row(served: Served, fruit: bytes) -> None:
    x = X.copy()
    x[3, 2] = np.nan
    url = "/v1/models/fruit/predict"

    row = served.http.post(url, content=npz(x=x), headers=NPZ)
    torn = served.http.post(url, content=npz(x=x)[:-30], headers=NPZ)

    assert row.json()["errors"][0]["pointer"] == "/x/3"
    assert (row.status_code, torn.status_code) == (422, 422)


def test_an_unknown_model_or_body_is_refused(served: Served, fruit: bytes) -> None:
    image = served.http.post(
        "/v1/models/fruit/predict", content=b"x", headers={"Content-Type": "image/png"}
    )

    assert ask(served, "nobody", X[0]).status_code == 404
    assert image.status_code == 415


def test_a_body_past_the_limit_is_refused(serve: Callable[..., Served]) -> None:
    served = serve(prediction_body_bytes=5000)
    served.register("small", mlp(8, 3))

    large = served.http.post("/v1/models/small/predict", content=b" " * 5001, headers=NPZ)
    bomb = served.http.post(
        "/v1/models/small/predict", content=compressed(x=np.zeros((1000, 8), "f4")), headers=NPZ
    )

    assert (large.status_code, bomb.status_code) == (413, 413)


def compressed(**arrays: np.ndarray) -> bytes:
    import io

    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    return buffer.getvalue()


def test_a_prediction_is_kept_and_corrected_and_trained_on(served: Served) -> None:
    served.register("corrected", mlp(8, 3), classes=["a", "b", "c"])

    answer = ask(served, "corrected", *X, keep=True).json()
    stored = served.http.get(f"/v1/models/corrected/samples/{answer['ids'][1]}/content").content
    waiting = served.http.get("/v1/models/corrected/samples/stats").json()
    for sample_id in answer["ids"]:
        url = f"/v1/models/corrected/samples/{sample_id}"
        patch = {"label": "b", "split": "train"}
        assert served.http.patch(url, json=patch).status_code == 200
    labelled = served.http.get("/v1/models/corrected/samples/stats").json()

    assert len(answer["ids"]) == len(X)
    assert (waiting["unlabelled"], labelled["unlabelled"]) == (len(X), 0)
    assert labelled["train"] == len(X)
    assert len(stored) > 0
    assert served.train("corrected", epochs=1, ignore_policy=True)["version"] == 2


def test_without_keep_nothing_is_stored(served: Served, fruit: bytes) -> None:
    assert "ids" not in ask(served, "fruit", X[0]).json()
    assert served.http.get("/v1/models/fruit/samples/stats").json()["unlabelled"] == 0


def test_a_model_that_ends_in_softmax_is_read_alike_in_every_version(served: Served) -> None:
    model = onnx.load_model_from_string(mlp(4, 8, 3))
    model.graph.node.append(onnx.helper.make_node("Softmax", ["logits"], ["probs"], axis=1))
    model.graph.output[0].name = "probs"
    served.register("softmax", model.SerializeToString(), output="logits")
    served.upload("softmax", split="train", **blobs(60, 4, 3))
    served.train("softmax", epochs=3)
    x = np.ones((1, 4), np.float32)

    for version in (1, 2):
        path = f"/v1/models/softmax/versions/{version}"
        file = served.http.get(f"{path}/model.onnx").content
        session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
        probs, logits = session.run(["probs", "logits"], {"x": x})
        answer = ask(served, "softmax", x[0], output=["logits", "probs"], version=version).json()
        assert answer["version"] == version
        (said,) = answer["predictions"]
        np.testing.assert_allclose(said["outputs"]["probs"], probs[0], rtol=1e-5)
        np.testing.assert_allclose(said["outputs"]["logits"], logits[0], rtol=1e-5)
        np.testing.assert_allclose(said["probability"], probs.max(), rtol=1e-5)
    assert ask(served, "softmax", x[0], version=3).status_code == 404
