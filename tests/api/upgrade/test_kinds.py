"""Upgrades of models of texts, of models with their own loss, and what else hangs on the base."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from embeddings import LENGTH, ROWS, embedding_model
from own_losses import FEATURES, OUTPUTS, own_loss, squared
from support import Served, blobs, mlp
from texts import classifier, tokenizer

TEXTS = {"good": "the cat sat on the mat", "bad": "a dog ran in the park"}
QUICK = {"epochs": 3, "batch_size": 8, "learning_rate": 0.01}


@pytest.fixture(autouse=True)
def _empty(served: Served) -> Iterator[None]:
    yield
    served.clear()


def upgraded(
    served: Served, name: str, model: bytes, vocabulary: bytes | None = None, **spec: Any
) -> dict[str, Any]:
    files = {"model": ("new.onnx", model)}
    if vocabulary is not None:
        files["tokenizer"] = ("tokenizer.json", vocabulary)
    answer = served.http.put(
        f"/v1/models/{name}/base",
        data={"spec": json.dumps({"hyperparameters": QUICK, **spec})},
        files=files,
    )
    assert answer.status_code == 202, answer.text
    return served.wait_for_job(answer.json()["id"])


def shown(served: Served, path: str) -> Any:
    return served.http.get(f"/v1/models/{path}").raise_for_status().json()


def test_stored_texts_take_another_tokenizer(served: Served) -> None:
    small, large = (tokenizer(list(TEXTS.values()) * 5, vocabulary=size) for size in (40, 64))
    preprocess = {"kind": "text", "max_tokens": 32}
    answer = served.http.post(
        "/v1/models",
        data={
            "spec": json.dumps(
                {
                    "name": "moods",
                    "loss": "cross_entropy",
                    "classes": [*TEXTS],
                    "preprocess": preprocess,
                }
            )
        },
        files={"model": classifier(40, 2), "tokenizer": small},
    )
    assert answer.status_code == 201, answer.text
    for split, numbers in (("train", range(20)), ("validation", range(20, 30))):
        texts = [(f"{TEXTS[label]} {number}", label) for number in numbers for label in TEXTS]
        sent = served.http.post(
            "/v1/models/moods/samples",
            data={"samples": json.dumps([{"label": label} for _, label in texts])},
            files=[("file", ("t.txt", text.encode(), "text/plain")) for text, _ in texts],
            params={"split": split},
        )
        assert sent.status_code == 201, sent.text
    served.train("moods", **QUICK)
    assert served.http.get("/v1/models/moods/tokenizer.json").content == small
    job = upgraded(served, "moods", classifier(64, 2, width=24), large)
    assert job["metrics"]["promoted"], job["metrics"]["reason"]
    assert served.http.get("/v1/models/moods/tokenizer.json").content == large
    predicted = served.http.post("/v1/models/moods/predict", json={"text": TEXTS["bad"]}).json()
    assert predicted["predictions"][0]["label"] == "bad"
    served.http.post("/v1/models/moods/rollback").raise_for_status()
    assert served.http.get("/v1/models/moods/tokenizer.json").content == small
    kept = upgraded(served, "moods", classifier(64, 2, width=12))
    assert kept["state"] == "succeeded", kept


def test_a_model_with_its_own_loss_is_compared_by_each_bases_own(served: Served) -> None:
    model = own_loss(*squared()).SerializeToString()
    served.register("own", model, loss={"output": "loss"})
    x = np.random.default_rng(6).standard_normal((60, FEATURES)).astype("f4")
    for split, rows in (("train", slice(0, 40)), ("validation", slice(40, None))):
        served.upload("own", split=split, x=x[rows], label=x[rows, :OUTPUTS] * 0.5)
    served.train("own", **QUICK)
    job = upgraded(served, "own", model)
    assert "validation loss went from" in job["metrics"]["reason"]
    assert shown(served, "own/versions/3")["base"] == 2


@pytest.mark.parametrize("at_registration", [False, True])
def test_numbers_keep_their_names(served: Served, at_registration: bool) -> None:
    names = {"classes": ["left", "right"]}
    served.register("sensors", mlp(4, 2), loss="huber", **(names if at_registration else {}))
    x = np.random.default_rng(6).standard_normal((60, 4)).astype("f4")
    for split, rows in (("train", slice(0, 40)), ("validation", slice(40, None))):
        served.upload("sensors", split=split, x=x[rows], label=x[rows, :2])
    if at_registration:
        part = {"inputs": {"x": [0.0] * 4}, "label": {"left": 1.0}, "split": "train"}
        served.http.post("/v1/models/sensors/samples", json=part).raise_for_status()
    else:
        served.http.patch("/v1/models/sensors", json=names).raise_for_status()
    upgraded(served, "sensors", mlp(4, 8, 2))
    made = shown(served, "sensors/versions/2")
    assert (made["base"], made["classes"]) == (2, ["left", "right"])
    assert len(made["metrics"]["mae_by_label"]) == 2


@pytest.mark.parametrize("loss", ["supcon", "multilabel"])
def test_a_model_of_named_labels_takes_the_file_that_it_came_of(served: Served, loss: str) -> None:
    model = mlp(6, 8, 2)
    served.register("named", model, loss=loss, classes=["ant", "bee"])
    answer = served.http.put("/v1/models/named/base", files={"model": ("new.onnx", model)})
    assert answer.json()["code"] == "no_samples", answer.text


def test_a_class_added_after_an_upgrade_is_there_after_a_rollback_too(served: Served) -> None:
    served.register("pets", mlp(6, 8, 3), classes=["ant", "bee", "cat"])
    served.upload("pets", "train", **blobs(200, 6, 3, seed=1))
    served.upload("pets", "validation", **blobs(60, 6, 3, seed=2))
    served.train("pets", **QUICK)
    assert upgraded(served, "pets", mlp(6, 32, 3, seed=3))["metrics"]["promoted"]
    served.http.post("/v1/models/pets/classes", json={"name": "dog"}).raise_for_status()
    served.http.post("/v1/models/pets/rollback").raise_for_status()
    served.http.post("/v1/models/pets/release").raise_for_status()
    fourth = blobs(60, 6, 4, seed=5)
    served.upload("pets", "train", **fourth)
    job = served.train("pets", **QUICK)
    assert len(job["metrics"]["validation"]["recall"]) == 4
    assert (shown(served, "pets/base")["base"], shown(served, "pets/latest")["base"]) == (1, 1)


def test_a_base_that_cannot_take_stored_samples_is_told_and_sets_none_aside(
    served: Served,
) -> None:
    served.register("ids", embedding_model())
    rows = np.random.default_rng(0).integers(0, ROWS, (40, LENGTH))
    served.upload("ids", "train", x=rows, label=np.arange(40) % 2)
    served.train("ids", **QUICK)
    job = upgraded(served, "ids", embedding_model(rows=10))
    assert (job["state"], job["error"]["code"]) == ("failed", "samples_invalid")
    assert "the new base does not fit" in job["error"]["detail"]
    assert shown(served, "ids/samples/stats")["quarantined"] == 0
    base = shown(served, "ids/base")
    assert (base["base"], base["upgrade"]["state"]) == (1, "waiting")
    assert "a table that has 10" in base["upgrade"]["reason"]


def test_consent_ends_with_other_shapes_alone(served: Served) -> None:
    served.register("pets", mlp(6, 8, 2), classes=["ant", "bee"])
    served.http.post("/v1/models/pets/classes", json={"name": "cat"}).raise_for_status()
    served.upload("pets", "train", **blobs(100, 6, 3, seed=1))
    gate = {"gate": {"mode": "always"}}
    consent = {"federation": {"allowed": True, "superlink": "fl.example:9092"}}
    served.http.patch("/v1/models/pets", json={**gate, **consent}).raise_for_status()
    upgraded(served, "pets", mlp(6, 8, 3, seed=9))
    assert shown(served, "pets")["federation"]["allowed"]
    upgraded(served, "pets", mlp(6, 9, 3))
    after = shown(served, "pets")["federation"]
    assert (after["allowed"], after["superlink"]) == (False, "fl.example:9092")
    assert shown(served, "pets/base")["base"] == 3


def test_an_erased_sample_is_in_the_fit_of_no_base(served: Served) -> None:
    served.register("fit", mlp(6, 8, 3), preprocess={"kind": "standardize"})
    samples = blobs(60, 6, 3, seed=1)
    samples["x"][0] = 1e4
    served.upload("fit", "train", **samples)
    served.upload("fit", "validation", **blobs(30, 6, 3, seed=2))
    served.train("fit", **QUICK)
    served.http.patch("/v1/models/fit", json={"gate": {"mode": "always"}}).raise_for_status()
    upgraded(served, "fit", mlp(6, 12, 3))
    fitted = shown(served, "fit")["preprocess"][0]["mean"]
    first = shown(served, "fit/samples?limit=1")["items"][0]["id"]
    gone = served.http.delete(f"/v1/models/fit/samples/{first}", params={"retrain": True})
    assert gone.status_code == 202, gone.text
    served.wait_for_job(gone.json()["job"]["id"])
    anew = shown(served, "fit")["preprocess"][0]["mean"]
    assert max(fitted) > 100 > max(map(abs, anew))
    served.http.put("/v1/models/fit/aliases/latest", json={"version": 1}).raise_for_status()
    assert shown(served, "fit")["preprocess"][0]["mean"] is None
    served.train("fit", **QUICK)
    assert shown(served, "fit")["preprocess"][0]["mean"] == pytest.approx(anew)


def test_a_job_from_an_old_checkpoint_trains_the_old_base(served: Served) -> None:
    served.register("pets", mlp(6, 8, 3))
    served.upload("pets", "train", **blobs(100, 6, 3, seed=1))
    served.train("pets", **QUICK)
    old = shown(served, "pets/checkpoints")["items"][0]["id"]
    served.http.patch("/v1/models/pets", json={"gate": {"mode": "always"}}).raise_for_status()
    upgraded(served, "pets", mlp(6, 12, 3))
    asked = {"from": old, **QUICK}
    job = served.train("pets", **asked)
    assert (job["base"], shown(served, f"pets/versions/{job['version']}")["base"]) == (1, 1)
    assert shown(served, "pets/base")["base"] == 1
