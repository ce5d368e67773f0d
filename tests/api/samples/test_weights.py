"""Weights of samples: sent with each kind of upload, stored, changed, and trained with."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import onnx
import pytest
from onnx.numpy_helper import to_array
from own_losses import own_loss, squared
from support import Served, mlp, npz

FEATURES, CLASSES = 4, 3
PATH = "/v1/models/weighted/samples"


@pytest.fixture(scope="module")
def model(served: Served) -> str:
    served.register("weighted", mlp(FEATURES, CLASSES), gate={"mode": "always"})
    return "weighted"


def rows(count: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal((count, FEATURES)).astype(np.float32)


def stored(served: Served, ids: list[int]) -> list[float]:
    return [served.http.get(f"{PATH}/{at}").json()["weight"] for at in range(ids[0], ids[1] + 1)]


def test_each_kind_of_upload_brings_weights_and_1_is_the_default(
    served: Served, model: str
) -> None:
    x = rows(8, 1)
    samples = [{"inputs": {"x": row.tolist()}, "label": 0, "split": "validation"} for row in x[:2]]
    samples[0]["weight"] = 2.5
    added = served.http.post(PATH, json={"samples": samples}).json()
    assert stored(served, added["ids"]) == [2.5, 1]
    added = served.upload(model, x=x[2:4], label=[0, 1], weight=np.array([0, 3])).json()
    assert stored(served, added["ids"]) == [0, 3]
    lines = [",".join(map(str, row)) for row in x[4:6].tolist()]
    text = f"a,b,c,d,heft,label\n{lines[0]},0.25,1\n{lines[1]},,2\n"
    asked = {"weight_column": "heft", "weight": 7}
    headers = {"Content-Type": "text/csv"}
    added = served.http.post(PATH, content=text, params=asked, headers=headers)
    assert added.status_code == 201, added.text
    assert stored(served, added.json()["ids"]) == [0.25, 7]
    params = {"weight": 4}
    headers = {"Content-Type": "application/x-npz"}
    added = served.http.post(
        PATH, content=npz(x=x[6:], label=[0, 1]), params=params, headers=headers
    )
    assert stored(served, added.json()["ids"]) == [4, 4]


def test_a_weight_is_changed_and_comes_back_with_the_content(served: Served, model: str) -> None:
    added = served.upload(model, split="validation", x=rows(1, 2), label=[1]).json()
    path = f"{PATH}/{added['ids'][0]}"
    assert served.http.patch(path, json={"weight": 0.5}).json()["weight"] == 0.5
    assert served.http.patch(path, json={"label": 2}).json()["weight"] == 0.5
    with np.load(io.BytesIO(served.http.get(f"{path}/content").content)) as arrays:
        assert arrays["weight"].tolist() == [0.5]
    refused = served.http.patch(path, json={"weight": -1})
    assert refused.json()["errors"][0]["pointer"] == "/weight"


def test_archives_keep_weights(served: Served, model: str) -> None:
    added = served.upload(model, split="validation", x=rows(2, 3), label=[1, 1], weight=[9.0, 1.0])
    first = added.json()["ids"][0]
    archive = served.http.get(f"/v1/models/{model}/samples/archive").content
    served.register("copied", mlp(FEATURES, CLASSES))
    headers = {"Content-Type": "application/zip"}
    taken = served.http.post("/v1/models/copied/samples/archive", content=archive, headers=headers)
    assert taken.status_code == 201, taken.text
    listed = served.http.get("/v1/models/copied/samples", params={"limit": 1000}).json()["items"]
    sha256 = served.http.get(f"{PATH}/{first}").json()["sha256"]
    assert [each["weight"] for each in listed if each["sha256"] == sha256] == [9.0]


@pytest.mark.parametrize(
    ("weight", "detail"),
    [
        (-0.5, "weight -0.5 is out of range; a weight is a finite float32, 0 or more"),
        (1e39, "weight 1e+39 is out of range; a weight is a finite float32, 0 or more"),
        ("2", "weight '2' is no number; a weight is a finite float32, 0 or more"),
        (True, "weight 'True' is no number; a weight is a finite float32, 0 or more"),
    ],
)
def test_what_is_no_weight_is_refused_by_its_place(
    weight: Any, detail: str, served: Served, model: str
) -> None:
    sample = {"inputs": {"x": rows(1, 4)[0].tolist()}, "label": 0, "weight": weight}
    answer = served.http.post(PATH, json={"samples": [sample]}).json()
    assert answer["errors"] == [{"pointer": "/samples/0/weight", "detail": detail}]


def test_bad_rows_of_an_array_are_named_and_others_are_kept_if_asked(
    served: Served, model: str
) -> None:
    arrays = {"x": rows(3, 5), "label": [0, 1, 2], "weight": [1, np.nan, np.inf]}
    refused = served.offer(model, **arrays).json()
    assert [error["pointer"] for error in refused["errors"]] == ["/weight/1", "/weight/2"]
    wrong = served.offer(model, x=rows(3, 5), label=[0, 1, 2], weight=["a", "b", "c"]).json()
    assert wrong["errors"][0]["detail"] == "array 'weight' holds one number a sample"
    answer = served.http.post(PATH, json={}, params={"weight": "nan"})
    assert answer.json()["errors"][0]["pointer"] == "/query/weight"


def test_a_model_whose_loss_is_of_the_batch_takes_no_weights(served: Served) -> None:
    served.register("of-batch", own_loss(*squared()).SerializeToString(), loss={"output": "loss"})
    arrays = {"x": np.ones((2, 6), np.float32), "label": np.ones((2, 3), np.float32)}
    refused = served.offer("of-batch", **arrays, weight=[1.0, 2.0]).json()
    assert "one number for a batch" in refused["errors"][0]["detail"]
    assert served.upload("of-batch", **arrays, weight=[1.0, 1.0]).status_code == 201
    headers = {"Content-Type": "application/x-npz"}
    answer = served.http.post(
        "/v1/models/of-batch/samples", content=npz(**arrays), params={"weight": 2}, headers=headers
    )
    assert answer.json()["errors"][0]["pointer"] == "/query/weight"


def test_a_step_takes_the_mean_of_weighted_losses_and_validation_the_plain_one(
    served: Served,
) -> None:
    """As `(torch.nn.functional.cross_entropy(…, reduction="none") * weight).mean()`."""
    uploaded = mlp(FEATURES, CLASSES)
    before = {
        each.name: to_array(each) for each in onnx.load_from_string(uploaded).graph.initializer
    }
    served.register("steps", uploaded, gate={"mode": "always"})
    x, labels = rows(6, 6), np.array([0, 1, 2, 0, 1, 2])
    weights = np.array([0, 1, 2, 0.5, 3, 1])
    served.upload("steps", split="train", x=x, label=labels, weight=weights).raise_for_status()
    other = x + np.float32(0.1)
    served.upload("steps", split="validation", x=other, label=labels, weight=weights)
    job = served.train("steps", max_steps=1, batch_size=6, optimizer="sgd", learning_rate=0.5)
    content = served.http.get(f"/v1/models/steps/versions/{job['version']}/model.onnx").content
    after = {each.name: to_array(each) for each in onnx.load_from_string(content).graph.initializer}
    matrix, bias = sorted(before, key=lambda name: -before[name].ndim)
    layout = before[matrix] if before[matrix].shape == (FEATURES, CLASSES) else before[matrix].T

    def losses(inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        p = np.exp(inputs.astype(np.float64) @ layout + before[bias])
        p /= p.sum(axis=1, keepdims=True)
        return p, -np.log(p[np.arange(6), labels])

    p, loss = losses(x)
    d = (p - np.eye(CLASSES)[labels]) * weights[:, None] / 6
    np.testing.assert_allclose(after[bias], before[bias] - 0.5 * d.sum(axis=0), rtol=1e-4)
    assert job["metrics"]["train_loss"] == pytest.approx((loss * weights).mean(), rel=1e-4)
    assert job["metrics"]["baseline"]["loss"] == pytest.approx(losses(other)[1].mean(), rel=1e-4)


def test_samples_of_the_weight_0_alone_are_none_to_train_on(served: Served) -> None:
    served.register("weightless", mlp(FEATURES, CLASSES))
    served.upload("weightless", x=rows(8, 6), label=np.arange(8) % 3, weight=np.zeros(8))
    job = served.wait_for_job(served.ask_for_job("weightless", epochs=1)["id"], "failed")
    assert job["error"]["code"] == "no_samples"
    assert "all training samples have the weight 0" in job["error"]["detail"]


def test_samples_of_classes_of_the_weight_0_alone_are_none_to_train_on(served: Served) -> None:
    served.register("classless", mlp(FEATURES, CLASSES))
    served.upload("classless", x=rows(8, 6), label=np.arange(8) % 2)
    asked = served.ask_for_job("classless", epochs=1, class_weights=[0, 0, 1])
    job = served.wait_for_job(asked["id"], "failed")
    assert job["error"]["code"] == "no_samples"
    assert "class_weights has 0 for the classes of all" in job["error"]["detail"]
    assert served.train("classless", epochs=1, class_weights=[0, 1, 1])["version"] == 2
