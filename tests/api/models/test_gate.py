"""No worse model reaches the apps: what jobs make is measured, explained, and held back."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from support import Served, blobs, mlp

GOOD = {"epochs": 5, "learning_rate": 0.02, "seed": 1}


def register(served: Served, name: str, *, samples: int = 600, **spec: object) -> str:
    served.register(name, mlp(8, 16, 3), **spec)
    assert served.upload(name, **blobs(samples, 8, 3)).status_code == 201
    return name


def version(served: Served, name: str, number: int | None = None) -> dict[str, Any]:
    which = "latest" if number is None else f"versions/{number}"
    return served.http.get(f"/v1/models/{name}/{which}").json()


def patch(served: Served, name: str, **changes: object) -> dict[str, Any]:
    answer = served.http.patch(f"/v1/models/{name}", json=changes)
    assert answer.status_code == 200, answer.text
    return answer.json()


def upload_mislabelled(served: Served, name: str, count: int) -> None:
    """Samples for training, each with the label of the next class.

    Shuffled labels cancel out, and what the right ones teach may outweigh them.
    """
    data = blobs(count, 8, 3, seed=3)
    answer = served.upload(name, x=data["x"], label=(data["label"] + 1) % 3, split="train")
    assert answer.status_code == 201, answer.text


def test_training_on_wrong_labels_makes_a_version_that_is_explained_and_not_promoted(
    served: Served,
) -> None:
    name = register(served, "mislabelled")
    good = served.train(name, **GOOD)["version"]
    before = served.http.get(f"/v1/models/{name}/latest/model.onnx")
    upload_mislabelled(served, name, 4000)

    job = served.train(name, epochs=8, learning_rate=0.02, seed=2)

    worse = version(served, name, job["version"])
    assert job["version"] == good + 1
    assert worse["metrics"]["accuracy"] < worse["baseline"]["accuracy"]
    assert worse["promoted"] is False
    assert worse["aliases"] == []
    assert worse["reason"].startswith("not promoted: validation accuracy went from 0.")
    assert "McNemar's exact test" in worse["reason"]
    figures = worse["verdict"]["validation"]
    assert figures["outcome"] == "worse"
    assert figures["p_value"] < 0.05
    assert figures["samples"] == worse["metrics"]["samples"] == worse["baseline"]["samples"]
    assert worse["verdict"]["baseline_version"] == good
    assert version(served, name)["version"] == good
    after = served.http.get(f"/v1/models/{name}/latest/model.onnx")
    assert (after.content, after.headers["ETag"]) == (before.content, before.headers["ETag"])
    file = served.http.get(f"/v1/models/{name}/versions/{job['version']}/model.onnx")
    assert file.status_code == 200


def test_a_version_that_learned_is_promoted_with_its_figures(served: Served) -> None:
    name = register(served, "learned")
    job = served.train(name, **GOOD)
    made = version(served, name)
    assert made["version"] == job["version"]
    assert made["verdict"]["validation"]["outcome"] == "better"
    assert "better (McNemar's exact test" in made["reason"]
    assert made["metrics"]["accuracy"] > 0.8 > made["baseline"]["accuracy"]


def test_too_few_validation_samples_make_a_version_that_is_not_promoted(served: Served) -> None:
    served.register("few", mlp(8, 16, 3))
    served.upload("few", **blobs(100, 8, 3), split="train")
    job = served.train("few", **GOOD)
    made = version(served, "few", job["version"])
    assert made["promoted"] is False
    assert "it has 0 validation samples, too few to tell" in made["reason"]
    assert version(served, "few")["version"] == 1

    served.upload("few", **blobs(20, 8, 3, seed=9), split="validation")
    again = served.train("few", **GOOD)
    assert version(served, "few")["version"] == again["version"]


def test_both_are_measured_on_the_validation_samples_as_they_are_now(served: Served) -> None:
    name = register(served, "now")
    queued = served.http.get(f"/v1/models/{name}").json()["samples"]["validation"]
    first = served.train(name, **GOOD)
    served.upload(name, **blobs(40, 8, 3, seed=8), split="validation")
    second = version(served, name, served.train(name, epochs=1)["version"])
    assert version(served, name, first["version"])["metrics"]["samples"] == queued
    assert second["metrics"]["samples"] == second["baseline"]["samples"] == queued + 40


def test_the_gate_may_wait_for_a_person_or_let_everything_through(served: Served) -> None:
    name = register(served, "modes", gate={"mode": "manual"})
    waiting = version(served, name, served.train(name, **GOOD)["version"])
    assert waiting["promoted"] is False
    assert waiting["reason"].startswith("not promoted: the gate leaves it to a person")
    by_hand = served.http.put(
        f"/v1/models/{name}/aliases/latest", json={"version": waiting["version"]}
    )
    assert by_hand.status_code == 200
    assert version(served, name)["version"] == waiting["version"]

    assert patch(served, name, gate={"mode": "always"})["gate"]["mode"] == "always"
    upload_mislabelled(served, name, 4000)
    bad = version(served, name, served.train(name, epochs=8, learning_rate=0.02)["version"])
    assert bad["promoted"] is True
    assert bad["verdict"]["validation"]["outcome"] == "worse"


def test_the_gate_of_a_model_is_shown_changed_and_checked(served: Served) -> None:
    name = register(served, "settings", samples=10, gate={"margin": 0.02}, retention={})
    shown = served.http.get(f"/v1/models/{name}").json()
    assert shown["gate"] == {
        "mode": "if_not_worse",
        "metric": "accuracy",
        "label": None,
        "margin": 0.02,
        "min_validation_samples": 6,
        "min_per_class": 0,
        "base_set": True,
        "base_margin": 0.02,
        "hold_on_drift": False,
        "guard": [],
    }
    assert shown["retention"] == {"max_versions": 20, "max_age_days": None, "max_bytes": None}
    changed = patch(served, name, gate={"margin": None, "metric": "loss"})
    assert (changed["gate"]["margin"], changed["gate"]["metric"]) == (0.1, "loss")
    changed = patch(served, name, retention={"max_versions": None, "max_bytes": 10**9})
    assert changed["retention"]["max_versions"] is None
    assert changed["gate"]["metric"] == "loss"
    for wrong, pointer in (
        ({"gate": {"metric": "mae"}}, "/gate/metric"),
        ({"gate": {"margin": -1}}, "/gate/margin"),
        ({"gate": {"base_margin": -1}}, "/gate/base_margin"),
        ({"gate": {"mode": "sometimes"}}, "/gate/mode"),
        ({"retention": {"max_versions": -1}}, "/retention/max_versions"),
    ):
        answer = served.http.patch(f"/v1/models/{name}", json=wrong)
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["pointer"] == pointer


def test_a_regression_is_judged_by_a_bootstrap(served: Served) -> None:
    served.register("slope", mlp(8, 16, 1), loss="mse")
    data = blobs(400, 8, 3)
    target = (data["x"] @ np.arange(8, dtype=np.float32) / 8)[:, None]
    assert served.upload("slope", x=data["x"], label=target).status_code == 201
    made = version(served, "slope", served.train("slope", **GOOD)["version"])
    assert made["promoted"] is True
    assert made["verdict"]["validation"]["test"] == "bootstrap"
    assert "paired bootstrap: 95 % interval -" in made["reason"]
    assert made["metrics"]["mae"] < made["baseline"]["mae"]


def test_a_frozen_reference_set_guards_against_samples_that_changed(served: Served) -> None:
    name = register(served, "reference")
    served.train(name, **GOOD)
    frozen = served.http.put(f"/v1/models/{name}/reference").json()
    good = version(served, name)["version"]
    shifted = blobs(4000, 8, 3, seed=5)
    label = (shifted["label"] + 1) % 3
    served.upload(name, x=shifted["x"], label=label)

    worse = version(served, name, served.train(name, epochs=10, learning_rate=0.02)["version"])

    assert frozen["samples"] == served.http.get(f"/v1/models/{name}/reference").json()["samples"]
    assert worse["verdict"]["validation"]["outcome"] == "better"
    assert worse["verdict"]["reference"]["outcome"] == "worse"
    assert worse["verdict"]["reference"]["samples"] == frozen["samples"]
    assert worse["promoted"] is False
    assert version(served, name)["version"] == good
    assert served.http.delete(f"/v1/models/{name}/reference").status_code == 204
    assert served.http.get(f"/v1/models/{name}/reference").json() == {
        "samples": 0,
        "frozen_at": None,
    }


def test_a_version_says_where_it_comes_from_and_its_file_says_the_same(served: Served) -> None:
    name = register(served, "origin")
    first = served.train(name, **GOOD)
    second = served.train(name, epochs=1, seed=6)
    made = version(served, name, second["version"])
    origin = made["provenance"]
    assert origin["model"] == name
    assert origin["job_id"] == made["job_id"] == second["id"]
    assert (origin["parent_version"], origin["seed"]) == (first["version"], 6)
    assert origin["watermark"] == second["watermark"]
    assert origin["train_samples"] + origin["validation_samples"] == 600
    assert origin["engine"].startswith("sessions 1 on onnxruntime ")
    assert len(origin["artifacts_sha256"]) == 64
    assert version(served, name, first["version"])["provenance"]["parent_version"] == 1
    file = served.http.get(f"/v1/models/{name}/versions/{second['version']}/model.onnx").content
    model = onnx.load_from_string(file)
    onnx.checker.check_model(model)
    entries = {entry.key: entry.value for entry in model.metadata_props}
    assert entries == {f"hone.{key}": str(value) for key, value in origin.items()}


def test_version_one_is_the_file_as_it_came(served: Served) -> None:
    content = mlp(8, 16, 3, seed=11)
    served.register("untouched", content)
    assert served.http.get("/v1/models/untouched/versions/1/model.onnx").content == content
    assert version(served, "untouched", 1)["provenance"] == {}


def test_old_versions_go_and_their_files_with_them(served: Served) -> None:
    name = register(served, "retained", samples=100, retention={"max_versions": 1})
    for seed in range(5):
        served.train(name, epochs=1, seed=seed)
    items = served.http.get(f"/v1/models/{name}/versions").json()["items"]
    kept = [item["version"] for item in items]
    latest = version(served, name)["version"]
    assert {1, 6, latest} <= set(kept)
    assert len(kept) <= 5
    gone = min(set(range(1, 7)) - set(kept))
    assert served.http.get(f"/v1/models/{name}/versions/{gone}").status_code == 404
    listed = served.http.get(f"/v1/models/{name}/checkpoints").json()["items"]
    jobs = {item["job_id"] for item in items}
    assert {checkpoint["job_id"] for checkpoint in listed} <= jobs


@pytest.mark.parametrize("wrong", ["1st", "-x", "a" * 65, "a b", "größe", "a%0A"])
def test_an_alias_has_a_name_that_is_safe_everywhere(served: Served, wrong: str) -> None:
    served.http.delete("/v1/models/names")
    served.register("names", mlp(8, 4, 3))
    answer = served.http.put(f"/v1/models/names/aliases/{wrong}", json={"version": 1})
    assert answer.status_code == 422
    (fault,) = answer.json()["errors"]
    assert fault["pointer"] == "/path/alias"
    assert fault["detail"].startswith("an alias has 1 to 64 characters: letters (A to Z")
