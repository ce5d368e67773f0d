"""Samples over HTTP: what goes up comes down."""

from __future__ import annotations

import io
import re

import numpy as np
import pytest
from support import Served, blobs, mlp


@pytest.fixture
def model(served: Served, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W+", "-", request.node.name)[:60]
    served.register(name, mlp(3, 4, 2), classes=["cat", "dog"])
    return name


def test_one_sample_a_batch_and_a_class_name(served: Served, model: str) -> None:
    one = served.http.post(
        f"/v1/models/{model}/samples",
        json={"inputs": {"x": [1, 2, 3]}, "label": "dog", "key": "a", "split": "validation"},
    )
    batch = served.http.post(
        f"/v1/models/{model}/samples",
        json={
            "samples": [
                {"inputs": {"x": [1, 2, 3]}, "label": 0, "split": "train"},
                {"inputs": {"x": [1, 2, 4]}, "label": None},
            ]
        },
    )

    first = one.json()["ids"][0]
    shown = served.http.get(f"/v1/models/{model}/samples/{first}").json()
    stats = served.http.get(f"/v1/models/{model}/samples/stats").json()
    assert one.json()["accepted"] == 1
    assert one.headers["location"] == f"/v1/models/{model}/samples/{first}"
    assert batch.json()["ids"] == [first + 1, first + 2]
    assert (shown["label"], shown["key"], shown["split"]) == (1, "a", "validation")
    assert (stats["train"], stats["validation"], stats["unlabelled"]) == (1, 1, 1)
    assert {"split": "validation", "label": 1, "name": "dog", "count": 1} in stats["labels"]


def test_the_same_key_again_is_a_duplicate(served: Served, model: str) -> None:
    body = {"inputs": {"x": [1, 2, 3]}, "label": 0, "key": "same"}
    other = {"inputs": {"x": [3, 2, 1]}, "label": 0, "key": "b"}
    url = f"/v1/models/{model}/samples"

    first = served.http.post(url, json=body).json()
    again = served.http.post(url, json={"samples": [body, other, body]}).json()

    assert (first["accepted"], first["duplicates"]) == (1, 0)
    assert (again["accepted"], again["duplicates"]) == (1, 2)


def test_a_model_added_again_under_its_name_takes_samples_and_lists_its_own(
    served: Served, model: str
) -> None:
    url = f"/v1/models/{model}/samples"
    assert served.http.post(url, json={"inputs": {"x": [1, 2, 3]}, "label": 1}).status_code == 201
    assert len(served.http.get(url).json()["items"]) == 1
    served.http.delete(f"/v1/models/{model}").raise_for_status()
    gone = [served.http.get(url), served.http.get(f"{url}/stats"), served.http.post(url, json={})]
    served.register(model, mlp(2, 4, 2), classes=["hen", "cow"])

    again = served.http.post(url, json={"inputs": {"x": [1, 2]}, "label": "cow"})

    assert [each.status_code for each in gone] == [404, 404, 404]
    assert again.status_code == 201, again.text
    assert [entry["label"] for entry in served.http.get(url).json()["items"]] == [1]
    assert served.http.get(f"{url}/stats").json()["train"] <= 1


@pytest.mark.parametrize("dtype", ["float64", "float16", ">f4", "int8", "uint16"])
def test_an_array_of_numbers_becomes_the_models_dtype(
    served: Served, model: str, dtype: str
) -> None:
    rows = np.array([[1, 2, 3], [4, 5, 6]], dtype=dtype)

    answer = served.upload(model, x=rows, label=np.array([0, 1], np.uint8))
    content = served.http.get(
        f"/v1/models/{model}/samples/{answer.json()['ids'][1]}/content"
    ).content

    arrays = np.load(io.BytesIO(content))
    assert arrays["x"].dtype == np.float32
    assert arrays["x"].tolist() == [[4, 5, 6]]
    assert arrays["label"].tolist() == [1]


def test_fortran_order_compression_names_and_keys_are_understood(
    served: Served, model: str
) -> None:
    rows = np.asfortranarray(np.arange(12, dtype=np.float32).reshape(4, 3))
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer, x=rows, label=np.array(["cat", "dog", "dog", "cat"]), key=np.arange(4)
    )

    answer = served.http.post(
        f"/v1/models/{model}/samples",
        content=buffer.getvalue(),
        headers={"Content-Type": "application/x-npz"},
    )
    last = answer.json()["ids"][1]
    content = served.http.get(f"/v1/models/{model}/samples/{last}/content").content
    shown = served.http.get(f"/v1/models/{model}/samples/{last}").json()

    assert answer.status_code == 201, answer.text
    assert np.load(io.BytesIO(content))["x"].tolist() == [[9, 10, 11]]
    assert (shown["label"], shown["key"]) == (0, "3")


def test_an_empty_name_in_an_npz_waits_for_its_label(served: Served, model: str) -> None:
    answer = served.upload(model, x=np.eye(3), label=np.array(["cat", "", "dog"]))

    listed = served.http.get(f"/v1/models/{model}/samples").json()["items"]
    assert answer.status_code == 201, answer.text
    assert {each["label"] for each in listed[:3]} == {0, None, 1}


def test_a_split_that_is_not_given_is_a_tenth_validation_and_stays(
    served: Served, model: str
) -> None:
    served.upload(model, **blobs(1000, 3, 2))

    counts = served.http.get(f"/v1/models/{model}").json()["samples"]

    assert counts["train"] + counts["validation"] == 1000
    assert 90 <= counts["validation"] <= 110


def test_samples_are_listed_filtered_changed_and_deleted(served: Served, model: str) -> None:
    url = f"/v1/models/{model}/samples"
    x = np.arange(21, dtype=np.float32).reshape(7, 3)
    served.upload(model, split="train", x=x[:5], label=np.array([0, 1, 1, 0, 1]))
    served.upload(model, x=x[5:])
    dogs = served.http.get(url, params={"label": "dog"}).json()["items"]
    waiting = served.http.get(url, params={"unlabelled": True}).json()["items"]

    named = served.http.patch(f"{url}/{waiting[0]['id']}", json={"label": "cat"}).json()
    emptied = served.http.patch(f"{url}/{dogs[0]['id']}", json={"label": None}).json()
    wrong = served.http.patch(f"{url}/{dogs[1]['id']}", json={"label": "cow"})
    deleted = served.http.delete(f"{url}/{dogs[1]['id']}")

    stats = served.http.get(f"{url}/stats").json()
    assert len(dogs) == 3
    assert len(waiting) == 2
    assert (named["label"], emptied["label"]) == (0, None)
    assert (wrong.status_code, deleted.status_code) == (422, 204)
    assert served.http.get(f"{url}/{dogs[1]['id']}").status_code == 404
    assert stats["unlabelled"] == 2
    assert stats["train"] + stats["validation"] == 4


def test_regression_labels_are_vectors(served: Served) -> None:
    served.register("regression", mlp(3, 4, 2), loss="mse")
    served.register("scalar", mlp(3, 4, 1), loss="mse")

    vector = served.http.post(
        "/v1/models/regression/samples",
        json={"inputs": {"x": [1, 2, 2**70]}, "label": [0.5, -(2**70)]},
    ).json()
    number = served.http.post(
        "/v1/models/scalar/samples", json={"inputs": {"x": [1, 2, 3]}, "label": 0.25}
    ).json()
    short = served.http.post(
        "/v1/models/regression/samples", json={"inputs": {"x": [1, 2, 3]}, "label": [0.5]}
    )

    shown = served.http.get(f"/v1/models/regression/samples/{vector['ids'][0]}").json()
    scalar = served.http.get(f"/v1/models/scalar/samples/{number['ids'][0]}").json()
    assert shown["label"] == [0.5, -(2**70)]
    assert scalar["label"] == [0.25]
    assert "has shape [1], the model takes [2]" in short.json()["errors"][0]["detail"]


def test_binary_targets_lie_between_0_and_1(served: Served) -> None:
    served.register("binary", mlp(3, 4, 1), loss="bce_with_logits")

    good = served.upload("binary", x=np.zeros((2, 3)), label=np.array([0.0, 1.0]))
    bad = served.offer("binary", x=np.zeros((2, 3)), label=np.array([0.0, 1.5]))

    assert good.status_code == 201, good.text
    assert "from 0 to 1" in bad.json()["errors"][0]["detail"]
