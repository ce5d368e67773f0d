"""A model of embeddings through a real daemon: taught by labels, judged by its neighbours."""

from __future__ import annotations

import numpy as np
import pytest
from support import Served, mlp, npz

from api.schemas.versions import PredictionBody


def persons(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs whose first two numbers say who it is; the other six vary more."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 6, count)
    x = rng.normal(size=(count, 8)).astype(np.float32)
    x[:, :2] = np.stack([labels % 2, labels // 2], axis=1) * 2 - 2 + x[:, :2] * 0.1
    return x, labels


@pytest.mark.parametrize("classes", [None, ["ann", "bob", "cem", "dan", "eva", "fay"]])
def test_embeddings_are_judged_by_their_nearest_neighbours(
    served: Served, classes: list[str] | None
) -> None:
    name = "persons" if classes is None else "named-persons"
    named = {} if classes is None else {"classes": classes}
    model = served.register(name, mlp(8, 32, 4), loss="supcon", **named)
    assert (model["gate"]["metric"], model["target"]["shape"]) == ("recall_at_1", [])
    x, labels = persons(320, 1)
    served.upload(name, "train", x=x[:240], label=labels[:240])
    served.upload(name, "validation", x=x[240:], label=labels[240:])

    served.train(name, epochs=30, batch_size=32, learning_rate=0.003, seed=1)
    version = served.http.get(f"/v1/models/{name}/versions/2").json()
    assert version["promoted"], version["reason"]
    assert version["verdict"]["validation"]["test"] == "mcnemar"
    assert version["metrics"]["recall_at_1"] > version["baseline"]["recall_at_1"] + 0.1

    asked = {"inputs": {"x": x[0].tolist()}}
    (answer,) = served.http.post(f"/v1/models/{name}/predict", json=asked).json()["predictions"]
    assert len(answer["embedding"]) == 4
    assert answer.keys() <= PredictionBody.model_fields.keys()
    metadata = served.http.get(f"/v2/models/{name}").json()
    assert metadata["outputs"][0]["shape"] == [-1, -1]


def test_what_embeddings_have_not_is_refused(served: Served) -> None:
    served.register("faces", mlp(8, 4), loss="supcon")
    x, labels = persons(20, 2)
    served.upload("faces", x=x, label=labels)
    url = "/v1/models/faces"
    refused = served.http.post(f"{url}/jobs", json={"label_smoothing": 0.1})
    (error,) = refused.json()["errors"]
    assert error["detail"].startswith("label_smoothing is of cross_entropy, the model's loss is")
    assert served.http.get(f"{url}/samples?order=uncertainty").status_code == 422
    wrong = npz(x=x[:1], label=np.array([0.5]))
    headers = {"Content-Type": "application/x-npz"}
    answer = served.http.post(f"{url}/samples", content=wrong, headers=headers)
    assert answer.status_code == 422
    balanced = served.ask_for_job("faces", sampling="balanced", epochs=1)
    assert served.wait_for_job(balanced["id"])["state"] == "succeeded"
