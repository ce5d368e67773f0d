"""The base set, from its upload to the gate, with real jobs."""

from __future__ import annotations

import re
from typing import Any

import httpx
import numpy as np
import pytest
from support import Served, blobs, mlp, npz

GOOD = {"epochs": 8, "learning_rate": 0.02, "seed": 1}
NPZ = {"Content-Type": "application/x-npz"}


@pytest.fixture
def model(served: Served, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"\W+", "-", request.node.name)[:60]
    served.register(name, mlp(8, 16, 3), classes=["a", "b", "c"])
    return name


def send(served: Served, model: str, **arrays: Any) -> httpx.Response:
    url = f"/v1/models/{model}/base-set"
    return served.http.post(url, content=npz(**arrays), headers=NPZ)


def base_set(served: Served, model: str) -> dict[str, Any]:
    return served.http.get(f"/v1/models/{model}/base-set").json()


def counts(served: Served, model: str) -> dict[str, int]:
    return served.http.get(f"/v1/models/{model}").json()["samples"]


def mirrored(count: int, seed: int = 5) -> dict[str, np.ndarray]:
    """The same classes seen by another sensor: what is learned of them unlearns the others."""
    data = blobs(count, 8, 3, seed=seed)
    return {"x": -data["x"], "label": data["label"]}


def test_it_is_shown_with_its_labels_and_removed(served: Served, model: str) -> None:
    assert base_set(served, model) == {
        "samples": 0,
        "held_out": 0,
        "labels": [],
        "changed_at": None,
    }
    data = blobs(100, 8, 3)
    answer = send(served, model, **data)
    assert answer.status_code == 201, answer.text
    assert answer.json()["accepted"] == 100
    shown = answer.json()["base_set"]
    assert shown == base_set(served, model)
    assert (shown["samples"], shown["changed_at"] is None) == (100, False)
    assert 2 <= shown["held_out"] <= 25
    expected = np.bincount(data["label"]).tolist()
    assert [(label["name"], label["count"]) for label in shown["labels"]] == [
        *zip("abc", expected, strict=True)
    ]
    assert counts(served, model) == {"train": 0, "validation": 0, "unlabelled": 0, "base": 100}

    removed = served.http.delete(f"/v1/models/{model}/base-set")
    assert removed.json() == {"given_back": 0, "deleted": 100}
    assert served.http.delete(f"/v1/models/{model}/base-set").status_code == 404
    assert counts(served, model)["base"] == 0


def test_the_first_samples_of_a_model_may_be_its_base_set(served: Served, model: str) -> None:
    served.upload(model, **blobs(50, 8, 3)).raise_for_status()
    before = counts(served, model)
    url = f"/v1/models/{model}/base-set"
    taken = served.http.post(url, json={"first": 20})
    assert (taken.json()["accepted"], taken.json()["duplicates"]) == (0, 20)
    assert taken.json()["base_set"]["samples"] == 20
    assert served.http.delete(url).json() == {"given_back": 20, "deleted": 0}
    assert counts(served, model) == before


def test_an_archive_of_another_model_and_plain_json_are_taken(served: Served, model: str) -> None:
    served.upload(model, **blobs(30, 8, 3)).raise_for_status()
    archive = served.http.get(f"/v1/models/{model}/samples/archive").content
    served.register(f"{model}2", mlp(8, 16, 3), classes=["a", "b", "c"])
    url = f"/v1/models/{model}2/base-set"
    answer = served.http.post(url, content=archive, headers={"Content-Type": "application/zip"})
    assert answer.json()["base_set"]["samples"] == 30
    one = {"samples": [{"inputs": {"x": [9.0] * 8}, "label": "b", "split": "train"}]}
    assert served.http.post(url, json=one).json()["base_set"]["samples"] == 31

    moved = served.http.get(f"/v1/models/{model}2/samples/archive").content
    served.register(f"{model}3", mlp(8, 16, 3), classes=["a", "b", "c"])
    imported = served.http.post(
        f"/v1/models/{model}3/samples/archive",
        content=moved,
        headers={"Content-Type": "application/zip"},
    )
    assert imported.status_code == 201
    assert base_set(served, f"{model}3")["samples"] == 31
    assert base_set(served, f"{model}3")["changed_at"] is not None


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"x": np.zeros((0, 8), np.float32), "label": np.zeros(0, np.int64)}, 422, "at least one"),
        ({"x": np.zeros((3, 8), np.float32)}, 422, "sample 0 has no label; give every sample one"),
        ({"x": np.zeros((3, 7), np.float32), "label": np.zeros(3, np.int64)}, 422, "takes [8]"),
        ({"first": 0}, 422, 'stands alone: {"first": 500}'),
        ({"first": "all"}, 422, 'stands alone: {"first": 500}'),
        ({"first": 11}, 409, "has 10 labelled samples, fewer than 11; ask for fewer"),
        ({"inputs": {"x": [1.0] * 8}}, 422, "sample 0 has no label"),
        ({"samples": []}, 422, "one"),
    ],
    ids=str,
)
def test_what_cannot_be_a_base_set_is_named_and_stores_nothing(
    served: Served, body: dict[str, Any], status: int, said: str
) -> None:
    name = f"refusing-{abs(hash(str(body)))}"
    served.register(name, mlp(8, 16, 3))
    served.upload(name, **blobs(10, 8, 3)).raise_for_status()
    if "x" in body:
        answer = send(served, name, **body)
    else:
        answer = served.http.post(f"/v1/models/{name}/base-set", json=body)
    assert answer.status_code == status, answer.text
    assert said in answer.text.replace('\\"', '"')
    assert counts(served, name)["base"] == 0
    assert sum(counts(served, name).values()) == 10


def test_an_archive_without_a_sample_is_refused(served: Served, model: str) -> None:
    archive = served.http.get(f"/v1/models/{model}/samples/archive").content
    url = f"/v1/models/{model}/base-set"
    answer = served.http.post(url, content=archive, headers={"Content-Type": "application/zip"})
    assert answer.status_code == 422
    assert "the base set would be empty: send at least one sample" in answer.json()["detail"]


def test_to_replay_what_is_not_there_is_refused(served: Served, model: str) -> None:
    served.upload(model, **blobs(50, 8, 3)).raise_for_status()
    url = f"/v1/models/{model}/jobs"
    answer = served.http.post(url, json={"replay": 0.3})
    assert answer.status_code == 422
    (problem,) = answer.json()["errors"]
    assert problem["pointer"] == "/replay"
    assert f"no base set to replay; send one to /v1/models/{model}/base-set" in problem["detail"]
    assert served.http.post(url, json={"replay": 0}).status_code == 202
    assert served.http.post(url, json={"replay": 0.95}).status_code == 422


def test_an_app_that_may_only_add_samples_changes_no_base_set(served: Served, model: str) -> None:
    served.upload(model, **blobs(30, 8, 3)).raise_for_status()
    served.http.post(f"/v1/models/{model}/base-set", json={"first": 5}).raise_for_status()
    archive = served.http.get(f"/v1/models/{model}/samples/archive").content
    asked = {"name": "app", "scopes": ["samples:write", "samples:read"]}
    token = served.http.post("/v1/tokens", json=asked).json()["secret"]
    bearer = {"Authorization": f"Bearer {token}"}
    url = f"/v1/models/{model}"
    zipped = {"Content-Type": "application/zip"} | bearer
    answers = [
        served.http.post(f"{url}/base-set", json={"first": 6}, headers=bearer),
        served.http.delete(f"{url}/base-set", headers=bearer),
        served.http.post(f"{url}/samples/archive", content=archive, headers=zipped),
    ]
    assert [answer.status_code for answer in answers] == [403, 403, 403]
    assert "models:admin" in answers[2].json()["detail"]
    assert base_set(served, model)["samples"] == 5


def test_a_job_replays_unasked_says_why_and_forgets_less(served: Served, model: str) -> None:
    known = blobs(400, 8, 3)
    served.upload(model, **known).raise_for_status()
    learned = served.train(model, **GOOD)
    assert "replay" not in learned["choices"]
    served.http.post(f"/v1/models/{model}/base-set", json={"first": 400}).raise_for_status()
    served.upload(model, **mirrored(400)).raise_for_status()

    forgot = served.train(model, **GOOD, replay=0)
    kept = served.train(model, **GOOD)

    assert (forgot["hyperparameters"]["replay"], forgot["choices"]) == (0, {})
    assert kept["hyperparameters"]["replay"] == 0.4
    assert kept["choices"]["replay"].startswith("keeps what the base set tells: ")
    assert kept["progress"]["total_steps"] > forgot["progress"]["total_steps"]
    versions = [
        served.http.get(f"/v1/models/{model}/versions/{job['version']}").json()
        for job in (forgot, kept)
    ]
    accuracies = [version["metrics"]["base_set"]["accuracy"] for version in versions]
    assert accuracies[0] + 0.1 < accuracies[1]
    assert versions[0]["promoted"] is False
    assert "; base set accuracy went from " in versions[0]["reason"]
    assert versions[0]["verdict"]["base_set"]["outcome"] == "worse"
    assert versions[1]["metrics"]["samples"] == counts(served, model)["validation"]
    assert versions[1]["metrics"]["base_set"]["samples"] == base_set(served, model)["held_out"]
    assert versions[1]["provenance"]["base_samples"] == 400 - base_set(served, model)["held_out"]
    seen = served.http.get(f"/v1/models/{model}/versions/{kept['version']}/samples").json()
    assert seen["total"] >= 360


def test_a_gate_may_leave_the_base_set_out(served: Served, model: str) -> None:
    served.upload(model, **blobs(300, 8, 3)).raise_for_status()
    served.train(model, **GOOD)
    served.http.post(f"/v1/models/{model}/base-set", json={"first": 300}).raise_for_status()
    served.upload(model, **mirrored(300)).raise_for_status()
    changed = served.http.patch(f"/v1/models/{model}", json={"gate": {"base_set": False}})
    assert changed.json()["gate"]["base_margin"] == 0.02
    job = served.train(model, **GOOD, replay=0)
    made = served.http.get(f"/v1/models/{model}/versions/{job['version']}").json()
    assert made["promoted"] is True
    assert "base_set" not in made["metrics"]


def test_a_share_that_is_gone_when_the_job_starts_is_told(served: Served, model: str) -> None:
    served.upload(model, **blobs(60, 8, 3)).raise_for_status()
    send(served, model, **mirrored(40)).raise_for_status()
    served.http.post("/v1/pause").raise_for_status()
    queued = served.ask_for_job(model, epochs=1, replay=0.3)
    served.http.delete(f"/v1/models/{model}/base-set").raise_for_status()
    served.http.post("/v1/resume").raise_for_status()
    job = served.wait_for_job(queued["id"])
    assert job["state"] == "succeeded"
    assert "the base set is gone" in " ".join(job["metrics"]["warnings"])
