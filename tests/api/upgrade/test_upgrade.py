"""A new base for a model that has learned: apps keep the old until the new one is no worse."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from interruption import interrupted, weights_of
from pictures import PREPROCESS, image_model, photo
from support import Served, blobs, mlp, wait_until

NAMES, SHADES = ["ant", "bee", "cat"], ["dark", "bright"]
TRAIN, HELD = blobs(300, 6, 3, seed=1), blobs(90, 6, 3, seed=2)
QUICK = {"epochs": 3, "batch_size": 16, "learning_rate": 0.01}


@pytest.fixture(autouse=True)
def _empty(served: Served) -> Iterator[None]:
    yield
    served.clear()


@pytest.fixture
def learned(served: Served) -> str:
    """A perceptron of three named classes that has learned from its samples."""
    served.register("pets", mlp(6, 8, 3), classes=NAMES)
    served.upload("pets", "train", **TRAIN)
    served.upload("pets", "validation", **HELD)
    served.train("pets", **QUICK)
    return "pets"


def put(served: Served, model: bytes, *, check: bool = False, **spec: Any) -> httpx.Response:
    """Ask for an upgrade."""
    return served.http.put(
        "/v1/models/pets/base",
        params={"check": check},
        data={"spec": json.dumps({"hyperparameters": QUICK, **spec})},
        files={"model": ("new.onnx", model)},
    )


def upgraded(served: Served, model: bytes, **spec: Any) -> dict[str, Any]:
    """The job of an upgrade, once it has ended."""
    answer = put(served, model, **spec)
    assert answer.status_code == 202, answer.text
    assert answer.headers["Location"] == f"/v1/jobs/{answer.json()['id']}"
    return served.wait_for_job(answer.json()["id"])


def upload_photo(served: Served, number: int, *, split: str) -> None:
    label = number % 2
    served.http.post(
        "/v1/models/pets/samples",
        params={"label": SHADES[label], "split": split},
        content=photo(60 + 120 * label, number),
        headers={"Content-Type": "image/png"},
    ).raise_for_status()


def base(served: Served) -> dict[str, Any]:
    return served.http.get("/v1/models/pets/base").json()


def version(served: Served, number: int | str) -> dict[str, Any]:
    at = number if number == "latest" else f"versions/{number}"
    return served.http.get(f"/v1/models/pets/{at}").json()


def pointers(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 422, answer.text
    return [error["pointer"] for error in answer.json()["errors"]]


def test_a_better_architecture_takes_over_with_the_versions_going_on(
    served: Served, learned: str
) -> None:
    before = served.http.get(f"/v1/models/{learned}").json()
    job = upgraded(served, mlp(6, 32, 16, 3, seed=3), classes=NAMES)
    assert (job["state"], job["trigger"], job["version"]) == ("succeeded", "upgrade", 3)
    assert job["metrics"]["promoted"], job["metrics"]["reason"]
    now, after = base(served), served.http.get(f"/v1/models/{learned}").json()
    assert (now["base"], now["versions"], now["upgrade"]) == (2, [3], None)
    assert [(each["base"], each["versions"]) for each in now["former"]] == [(1, [1, 2])]
    assert version(served, "latest")["version"] == 3
    assert after["parameters"]["trainable"] > before["parameters"]["trainable"]
    kept = ("name", "created_at", "target", "samples", "gate", "quota", "hyperparameters")
    assert {name: after[name] for name in kept} == {name: before[name] for name in kept}
    found = served.http.post(f"/v1/models/{learned}/predict", json={"inputs": {"x": [0.0] * 6}})
    assert found.status_code == 200, found.text
    assert version(served, 4).get("code") == "not_found"
    assert served.train(learned, **QUICK)["version"] == 4
    assert base(served)["versions"] == [3, 4]


def test_a_rollback_returns_to_the_old_base_and_its_checkpoints(
    served: Served, learned: str
) -> None:
    upgraded(served, mlp(6, 32, 16, 3, seed=3))
    served.http.post(f"/v1/models/{learned}/rollback").raise_for_status()
    assert base(served)["base"] == 1
    assert served.http.get(f"/v1/models/{learned}").json()["parameters"]["trainable"] == 83
    served.http.post(f"/v1/models/{learned}/release").raise_for_status()
    job = served.train(learned, **QUICK)
    lineage = version(served, job["version"])["provenance"]
    assert (lineage["parent_version"], base(served)["versions"]) == (2, [1, 2, 4])
    compared = served.http.get(f"/v1/models/{learned}/versions/2/comparison/3").json()
    assert (compared["samples"], compared["left_out"]) == (90, 0)


def test_a_worse_file_is_trained_refused_and_waits(served: Served, learned: str) -> None:
    blind = mlp(6, 1, 3, seed=5)
    before = served.http.get(f"/v1/models/{learned}/latest/model.onnx").content
    still = {"max_steps": 1, "learning_rate": 1e-9, "class_weights": [1, 1, 2]}
    job = upgraded(served, blind, hyperparameters=still)
    assert (job["state"], job["metrics"]["promoted"]) == ("succeeded", False)
    waiting = base(served)
    assert (waiting["base"], waiting["upgrade"]["state"]) == (1, "waiting")
    assert waiting["upgrade"]["reason"].startswith("not promoted")
    assert (waiting["upgrade"]["versions"], waiting["upgrade"]["retry_at"]) == ([3], 487)
    assert served.http.get(f"/v1/models/{learned}/latest/model.onnx").content == before
    classes = f"/v1/models/{learned}/classes"
    served.http.post(classes, json={"name": "dog"}).raise_for_status()
    served.http.post("/v1/pause").raise_for_status()
    samples = f"/v1/models/{learned}/samples"
    listed = served.http.get(samples, params={"split": "train", "limit": 1}).json()["items"]
    erased = served.http.delete(f"{samples}/{listed[0]['id']}", params={"retrain": True}).json()
    served.http.post(f"/v1/jobs/{erased['job']['id']}/cancel").raise_for_status()
    served.http.post("/v1/resume").raise_for_status()
    served.upload(learned, "train", **blobs(200, 6, 3, seed=9))
    again = wait_until(lambda: _other_job(served, job["id"]), "the upgrade to be tried again")
    job = served.wait_for_job(again)
    assert job["hyperparameters"]["class_weights"] == [1, 1, 2, 1]
    assert (version(served, "latest")["version"], base(served)["base"]) == (2, 1)
    assert served.http.delete(f"/v1/models/{learned}/base").status_code == 204
    assert base(served)["upgrade"] is None
    assert version(served, 3).get("code") == version(served, 4).get("code") == "not_found"
    assert served.http.delete(f"/v1/models/{learned}/base").json()["code"] == "not_found"


def _other_job(served: Served, first: int) -> int | None:
    upgrade = base(served)["upgrade"]
    return upgrade["job_id"] if upgrade["job_id"] != first else None


def test_a_check_tells_all_that_does_not_fit_and_changes_nothing(
    served: Served, learned: str
) -> None:
    before = base(served)
    fits = put(served, mlp(6, 4, 3), check=True)
    assert (fits.status_code, fits.json().get("consent_ends")) == (200, False), fits.text
    assert fits.json()["trainable_parameters"] == 43
    wrong = put(served, mlp(7, 4, 5), check=True)
    assert pointers(wrong) == ["/model/graph/input/x", "/model/graph/output"]
    assert "name all 5 in the spec's classes" in wrong.text  # also to who has named the model's 3
    named = put(served, mlp(6, 4, 3, inputs="pixels"), check=True)
    assert pointers(named) == ["/model/graph/input"]
    assert pointers(put(served, b"nothing")) == ["/model"]
    assert pointers(put(served, mlp(6, 4, 3), preprocess={"kind": "image"})) == ["/spec/preprocess"]
    assert pointers(put(served, mlp(6, 4, 3), classes=["x", "y", "z"])) == ["/spec/classes"]
    ignored = put(served, mlp(6, 4, 3), hyperparameters={"ignore_index": 9})
    assert pointers(ignored) == ["/spec/hyperparameters/ignore_index"]
    assert base(served) == before
    assert served.http.get("/v1/jobs").json()["items"][0]["trigger"] == "request"


def test_rows_of_the_head_go_by_the_names_of_the_classes(served: Served, learned: str) -> None:
    other = mlp(6, 32, 4, seed=3)
    turned = ["cat", "dog", "ant", "bee"]
    still = {"max_steps": 1, "learning_rate": 1e-12, "head": None, "auto": False}
    served.http.patch(f"/v1/models/{learned}", json={"gate": {"mode": "always"}})
    upgraded(served, other, classes=turned, hyperparameters=still)
    import onnxruntime

    x = TRAIN["x"][:50]
    (plain,) = onnxruntime.InferenceSession(other).run(["logits"], {"x": x})
    content = served.http.get(f"/v1/models/{learned}/latest/model.onnx").content
    (made,) = onnxruntime.InferenceSession(content).run(["logits"], {"x": x})
    np.testing.assert_allclose(made, plain[:, [2, 3, 0]], atol=1e-4)
    served.http.post(f"/v1/models/{learned}/classes", json={"name": "dog"}).raise_for_status()
    upgrade = served.http.get(f"/v1/models/{learned}").json()
    assert upgrade["target"]["classes"] == [*NAMES, "dog"]
    served.train(learned, **QUICK)


def test_a_class_that_the_file_lacks_is_learned(served: Served, learned: str) -> None:
    job = upgraded(served, mlp(6, 32, 2, seed=3), classes=["cat", "ant"])
    recall = job["metrics"]["validation"]["recall"]
    assert recall[1] > 0.8, job["metrics"]


def test_the_old_model_teaches_the_new_one_if_asked(served: Served, learned: str) -> None:
    """Labels at random teach nothing, so what the new network knows is from its teacher."""
    served.http.patch(f"/v1/models/{learned}", json={"gate": {"mode": "always"}})
    samples = f"/v1/models/{learned}/samples"
    served.http.delete(samples, params={"split": "train", "all": True}).raise_for_status()
    guesses = np.random.default_rng(8).integers(0, 3, 300)
    served.upload(learned, "train", x=TRAIN["x"], label=guesses).raise_for_status()
    asked = {"epochs": 20, "batch_size": 16, "learning_rate": 0.01, "seed": 2}
    known = {"classes": ["cat", "ant"]}  # the head's rows go by name, and so do its predictions
    alone = upgraded(served, mlp(6, 32, 2, seed=3), **known, hyperparameters=asked)
    served.http.post(f"/v1/models/{learned}/rollback").raise_for_status()
    taught = upgraded(
        served, mlp(6, 32, 2, seed=3), **known, hyperparameters={**asked, "distillation": 30}
    )
    right = [each["metrics"]["validation"]["accuracy"] for each in (alone, taught)]
    assert right[1] > max(0.8, right[0] + 0.2), right
    # What the teacher has learned from is in what it taught, too.
    assert [_first_is_deleted(served, each["version"]) for each in (alone, taught)] == [False, True]


def _first_is_deleted(served: Served, number: int) -> bool:
    """Whether the first sample that a version has learned from is gone."""
    path = f"/v1/models/pets/versions/{number}/samples"
    deleted: bool = served.http.get(path, params={"limit": 1}).json()["items"][0]["deleted"]
    return deleted


def test_an_upgrade_that_is_killed_asks_the_same_teacher_again(served: Served) -> None:
    """The teacher takes photos in its own size, and `latest` names another when the job goes on."""
    gate = {"mode": "always"}
    served.register("pets", image_model(), preprocess=PREPROCESS, gate=gate, classes=SHADES)
    for number in range(48):
        upload_photo(served, number, split="train")
    served.train("pets", **QUICK)
    asked = {"epochs": 600, "batch_size": 8, "seed": 3, "distillation": 2}
    calm = upgraded(served, image_model(3, side=16), hyperparameters=asked)
    served.http.post("/v1/models/pets/rollback").raise_for_status()
    job = put(served, image_model(3, side=16), hyperparameters=asked).json()["id"]

    def rename() -> None:
        served.http.put("/v1/models/pets/aliases/latest", json={"version": 1}).raise_for_status()

    hasty = interrupted(served, job, while_paused=rename)
    assert weights_of(served, calm) == weights_of(served, hasty)


def test_a_model_that_has_nothing_to_keep_is_not_upgraded(served: Served) -> None:
    served.register("pets", mlp(6, 8, 3), classes=NAMES)
    answer = put(served, mlp(6, 4, 3))
    assert (answer.status_code, answer.json()["code"]) == (409, "no_samples")
    assert base(served)["upgrade"] is None


def test_stored_photos_take_another_size(served: Served) -> None:
    served.register("pets", image_model(), preprocess=PREPROCESS, classes=SHADES)
    for number in range(48):
        upload_photo(served, number, split="validation" if number > 35 else "train")
    served.train("pets", **QUICK)
    job = upgraded(served, image_model(3, side=16))
    assert job["metrics"]["promoted"], job["metrics"]["reason"]
    model = served.http.get("/v1/models/pets").json()
    assert (model["inputs"][0]["shape"], model["preprocess"][0]["size"]) == ([1, 16, 16], [16, 16])
    found = served.http.post(
        "/v1/models/pets/predict",
        content=photo(190, 99),
        headers={"Content-Type": "image/png"},
    ).json()
    assert found["predictions"][0]["label"] == "bright", found
    compared = served.http.get("/v1/models/pets/versions/2/comparison/3").json()
    assert compared["samples"] == 12
    gray = put(served, image_model(side=16), check=True, preprocess={"channels": "rgb"})
    assert gray.status_code == 422


@pytest.mark.parametrize("running", ["wait", "cancel"])
def test_a_paused_job_of_the_old_base_ends_first_or_is_cancelled(
    served: Served, learned: str, running: str
) -> None:
    old = served.ask_for_job(learned, max_steps=10_000_000, batch_size=4, learning_rate=1e-3)
    wait_until(lambda: served.job(old["id"])["progress"].get("step", 0) > 0, "the job to train")
    served.http.post(f"/v1/jobs/{old['id']}/pause").raise_for_status()
    answer = put(served, mlp(6, 32, 16, 3, seed=3), running=running)
    new = answer.json()["id"]
    if running == "cancel":
        assert served.job(old["id"])["state"] == "cancelled"
        assert served.wait_for_job(new)["state"] == "succeeded"
        return
    blocked = wait_until(lambda: served.job(new)["blocked_by"], "the upgrade to be blocked")
    assert [each["condition"] for each in blocked] == ["another_job"]
    assert f"job {old['id']}" in base(served)["upgrade"]["reason"]
    served.http.post(f"/v1/jobs/{old['id']}/cancel").raise_for_status()
    assert served.wait_for_job(new)["state"] == "succeeded"
