"""What a prediction's query and Accept choose: classes, outputs, and the form of the answer."""

from __future__ import annotations

import io

import httpx
import numpy as np
import onnx
import onnxruntime
import pytest
from predictions import X, ask, segmenter
from support import Served, mlp, npz

NPZ, OCTETS = "application/x-npz", "application/octet-stream"
CLASSES = ["apple", "pear", "plum"]
SIDE = 32


def outputs_of(model: bytes, x: np.ndarray) -> list[np.ndarray]:
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    return session.run(None, {"x": x})


@pytest.fixture(scope="module")
def fruit(served: Served) -> bytes:
    """A classifier with two outputs: the logits, and the layer before them."""
    model = onnx.load_model_from_string(mlp(8, 16, 3))
    model.graph.output.append(onnx.helper.make_tensor_value_info("hidden0", 1, ["batch", 16]))
    content = model.SerializeToString()
    served.register("two", content, classes=CLASSES, output="logits")
    return content


@pytest.fixture(scope="module")
def mask(served: Served) -> np.ndarray:
    """Logits of a picture's pixels, (1, 3, SIDE, SIDE)."""
    model = segmenter(SIDE, 3)
    served.register("pixels", model)
    return outputs_of(model, pixels())[0]


def pixels() -> np.ndarray:
    return np.random.default_rng(1).random((1, 1, SIDE, SIDE), dtype=np.float32)


def zipped(
    served: Served, name: str, x: np.ndarray, accept: str, **query: object
) -> httpx.Response:
    headers = {"Content-Type": NPZ, "Accept": accept}
    url = f"/v1/models/{name}/predict"
    return served.http.post(url, content=npz(x=x), headers=headers, params=query)


def arrays(answer: httpx.Response) -> dict[str, np.ndarray]:
    assert (answer.status_code, answer.headers["content-type"]) == (200, NPZ), answer.text
    with np.load(io.BytesIO(answer.content)) as found:
        return dict(found)


def test_top_gives_the_likeliest_classes_in_place_of_all(served: Served, fruit: bytes) -> None:
    every = ask(served, "two", *X).json()["predictions"]
    two = ask(served, "two", *X, top=2).json()["predictions"]
    for whole, short in zip(every, two, strict=True):
        ranked = sorted(zip(whole["probabilities"], CLASSES, strict=True), reverse=True)[:2]
        assert short == {
            "top": {"label": [name for _, name in ranked], "probability": [p for p, _ in ranked]}
        }
    (all_of_them,) = ask(served, "two", X[0], top=99).json()["predictions"]
    assert len(all_of_them["top"]["label"]) == 3


def test_outputs_are_told_when_they_are_named_and_then_nothing_twice(
    served: Served, fruit: bytes
) -> None:
    logits, hidden = outputs_of(fruit, X[:1])
    (both,) = ask(served, "two", X[0], output=["hidden0", "logits"]).json()["predictions"]
    assert set(both) == {"label", "probability", "outputs"}
    assert both["outputs"] == {
        "hidden0": pytest.approx(hidden[0].tolist(), abs=1e-5),
        "logits": pytest.approx(logits[0].tolist(), abs=1e-5),
    }
    (one,) = ask(served, "two", X[0], output="hidden0", top=1).json()["predictions"]
    assert set(one) == {"top", "outputs"}
    assert set(one["outputs"]) == {"hidden0"}


def test_a_query_that_does_not_fit_the_model_stores_nothing(served: Served, fruit: bytes) -> None:
    served.register("numbers", mlp(8, 2), loss="mse")
    wrong = ask(served, "numbers", X[0], top=1, output=["nobody"], keep=True)
    assert wrong.status_code == 422
    assert [error["pointer"] for error in wrong.json()["errors"]] == ["/query/output", "/query/top"]
    assert "there are ['logits']" in wrong.json()["errors"][0]["detail"]
    assert served.http.get("/v1/models/numbers").json()["samples"]["unlabelled"] == 0


def test_npz_holds_the_fields_of_json(served: Served, fruit: bytes) -> None:
    told = ask(served, "two", *X, top=2, output="logits").json()
    found = arrays(zipped(served, "two", X, NPZ, top=2, output="logits", keep=True))
    assert set(found) == {"top/label", "top/probability", "outputs/logits", "ids"}
    for row, prediction in enumerate(told["predictions"]):
        named = [CLASSES[index] for index in found["top/label"][row]]
        assert named == prediction["top"]["label"]
        assert found["top/probability"][row].tolist() == pytest.approx(
            prediction["top"]["probability"], rel=1e-6
        )
        logits = np.array(prediction["outputs"]["logits"], np.float32)
        np.testing.assert_array_equal(found["outputs/logits"][row], logits)
    assert found["outputs/logits"].dtype == np.float32
    assert found["ids"].shape == (len(X),)


def test_octets_are_one_array(served: Served, fruit: bytes) -> None:
    found = arrays(zipped(served, "two", X, NPZ, output="hidden0"))
    for query, wanted in (
        ({"output": "hidden0"}, found["outputs/hidden0"]),
        ({}, arrays(zipped(served, "two", X, NPZ))["probabilities"]),
    ):
        answer = zipped(served, "two", X, OCTETS, **query)
        shape = [int(size) for size in answer.headers["honed-shape"].split(",")]
        assert (answer.headers["content-type"], answer.headers["honed-dtype"]) == (
            OCTETS,
            "float32",
        )
        given = np.frombuffer(answer.content, "<f4").reshape(shape)
        np.testing.assert_array_equal(given, wanted)
        assert answer.headers["honed-version"] == "1"


def test_what_one_array_cannot_say_is_refused(served: Served, fruit: bytes) -> None:
    query = {"top": 1, "keep": True, "output": ["logits", "hidden0"]}
    answer = zipped(served, "two", X, OCTETS, **query)
    assert answer.status_code == 422
    pointers = [error["pointer"] for error in answer.json()["errors"]]
    assert pointers == ["/query/keep", "/query/top", "/query/output"]


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("*/*", "application/json"),
        ("text/html, application/x-npz;q=0.4, */*;q=0.1", NPZ),
        ("application/x-npz;q=0.4, APPLICATION/OCTET-STREAM; q=0.5", OCTETS),
        ("application/json, application/x-npz;q=0.9", "application/json"),
        ("application/x-npz;q=0", "application/json"),
        ("application/x-npz;q=nonsense,,;", NPZ),
    ],
)
def test_the_form_is_the_one_that_accept_prefers(
    served: Served, fruit: bytes, accept: str, form: str
) -> None:
    assert zipped(served, "two", X, accept).headers["content-type"] == form


def test_a_mask_is_a_class_for_each_pixel_and_small(served: Served, mask: np.ndarray) -> None:
    answer = ask(served, "pixels", pixels()[0])
    (said,) = answer.json()["predictions"]
    np.testing.assert_array_equal(said["label"], mask.argmax(axis=1)[0])
    assert set(said) == {"label"}
    assert len(answer.content) < 2.2 * SIDE**2
    octets = zipped(served, "pixels", pixels(), OCTETS)
    assert (octets.headers["honed-dtype"], len(octets.content)) == ("uint8", SIDE**2)
    (ranked,) = ask(served, "pixels", pixels()[0], top=2).json()["predictions"]
    assert np.shape(ranked["top"]["probability"]) == (2, SIDE, SIDE)
    np.testing.assert_array_equal(ranked["top"]["label"][0], said["label"])


def test_a_batch_of_logits_says_each_number_once(served: Served) -> None:
    served.register("wide", mlp(8, 32), loss="mse")
    x = np.random.default_rng(0).standard_normal((1000, 8)).astype(np.float32)
    answer = zipped(served, "wide", x, "application/json")
    assert len(answer.content) < 1000 * 32 * 12.5
    values = [prediction["values"] for prediction in answer.json()["predictions"]]
    np.testing.assert_array_equal(
        np.array(values, np.float32), arrays(zipped(served, "wide", x, NPZ))["values"]
    )
