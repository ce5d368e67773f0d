"""An app that may add samples to one model, and what it finds closed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from support import Served, client, mlp, npz

from tests.api.access.test_scopes import IDS, TABLE

JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def pets(served: Served) -> str:
    """A model with a sample of the admin's, whose key is `theirs`."""
    name = "app-pets"
    served.register(name, mlp(2, 4, 3))
    served.register("app-faces", mlp(2, 4, 3))
    for each in (name, "app-faces"):
        served.http.post(
            f"/v1/models/{each}/samples", json={"inputs": {"x": [9, 9]}, "key": "theirs"}
        ).raise_for_status()
    return name


def token(served: Served, name: str, *scopes: str, models: list[str] | None = None) -> str:
    body = {"name": name, "scopes": scopes, "models": models}
    secret: str = served.http.post("/v1/tokens", json=body).raise_for_status().json()["secret"]
    return secret


@pytest.fixture(scope="module")
def camera(served: Served, pets: str) -> Iterator[httpx.Client]:
    secret = token(served, "camera", "samples:write", models=[pets])
    with client(served.url, token=secret) as app:
        yield app


def sample(*inputs: float, **more: Any) -> dict[str, Any]:
    return {"inputs": {"x": inputs}, **more}


def test_it_adds_samples_and_labels_them_by_its_own_keys(
    served: Served, pets: str, camera: httpx.Client
) -> None:
    path = f"/v1/models/{pets}/samples"
    assert camera.post(path, json=sample(1, 2, key="mine")).json()["accepted"] == 1
    labelled = camera.patch(path, params={"key": "mine"}, json={"label": 2})
    assert (labelled.status_code, labelled.json()["label"]) == (200, 2)
    by_id = camera.patch(f"{path}/{labelled.json()['id']}", json={"label": 1})
    assert by_id.json()["label"] == 1
    kept = served.http.get(path, params={"key": "mine"}).json()["items"]
    assert [each["label"] for each in kept] == [1]


def test_it_changes_nothing_of_others(served: Served, pets: str, camera: httpx.Client) -> None:
    path = f"/v1/models/{pets}/samples"
    theirs = served.http.get(path, params={"key": "theirs"}).json()["items"][0]
    assert camera.patch(path, params={"key": "theirs"}, json={"label": 1}).status_code == 404
    assert camera.patch(f"{path}/{theirs['id']}", json={"label": 1}).status_code == 404
    taken = camera.post(path, json=sample(3, 4, key="theirs", label=1))
    assert (taken.status_code, taken.json()["code"]) == (409, "already_exists")
    twin = camera.post(path, json=sample(9, 9, label=1)).json()
    assert (twin["accepted"], twin["duplicates"], twin["warnings"]) == (1, 0, [])
    assert served.http.get(f"{path}/{theirs['id']}").json() == theirs


def test_it_evicts_nothing_of_others_by_quota_and_pins_nothing(served: Served) -> None:
    model = "app-full"
    path = f"/v1/models/{model}/samples"
    served.register(model, mlp(2, 4, 3))
    served.http.patch(f"/v1/models/{model}", json={"quota": {"max_samples": 40}})
    flood = {"samples": [sample(0, n, split="train") for n in range(500)]}
    with (
        client(served.url, token=token(served, "door", "samples:write")) as door,
        client(served.url, token=token(served, "flood", "samples:write")) as flooding,
    ):
        door.post(path, json={"samples": [sample(1, n, key=f"door {n}") for n in range(20)]})
        assert flooding.post(path, json=flood).json()["evicted"] >= 480
        keys = [row["key"] for row in served.http.get(path, params={"limit": 99}).json()["items"]]
        assert keys == [f"door {n}" for n in range(20)] + [None] * 20

        for pinned in (True, False):
            by_key = door.patch(path, params={"key": "door 1"}, json={"pinned": pinned})
            assert (by_key.status_code, by_key.json()["code"]) == (403, "insufficient_scope")
        served.http.patch(path, params={"key": "door 1"}, json={"pinned": True})
        archive = served.http.get(f"{path}/archive").content
        taken = flooding.post(
            f"{path}/archive", content=archive, headers={"Content-Type": "application/zip"}
        )
    assert (taken.status_code, taken.json()["code"]) == (403, "insufficient_scope")
    assert "pinned" in taken.json()["detail"]


def test_everything_else_is_closed(pets: str, camera: httpx.Client) -> None:
    opened = []
    for method, path, _ in TABLE:
        for model in (pets, "app-faces"):
            place = path.replace("{name}", model).replace("{alias}", "latest")
            for each in IDS:
                place = place.replace(f"{{{each}}}", "1")
            answer = camera.request(method, place, json={})
            if answer.status_code != 403:
                opened.append((method, path, model, answer.status_code))
    assert [(method, path) for method, path, model, _ in opened if model == pets] == [
        ("POST", "/v1/models/{name}/samples"),
        ("PATCH", "/v1/models/{name}/samples"),
        ("POST", "/v1/models/{name}/samples/archive"),
        ("PATCH", "/v1/models/{name}/samples/{sample_id}"),
    ]
    assert {status for *_, status in opened} <= {404, 415, 422}
    assert not [each for each in opened if "app-faces" in each]


def test_it_keeps_no_predictions_without_the_right_to_add(served: Served, pets: str) -> None:
    body = {"inputs": {"x": [5, 6]}}
    with client(served.url, token=token(served, "asks", "predict", models=[pets])) as app:
        assert app.post(f"/v1/models/{pets}/predict", json=body).status_code == 200
        refused = app.post(f"/v1/models/{pets}/predict?keep=true", json=body)
    assert (refused.status_code, refused.json()["code"]) == (403, "insufficient_scope")
    assert "samples:write" in refused.json()["detail"]
    both = token(served, "asks and keeps", "predict", "samples:write", models=[pets])
    with client(served.url, token=both) as app:
        (kept,) = app.post(f"/v1/models/{pets}/predict?keep=true", json=body).json()["ids"]
        answer = app.patch(f"/v1/models/{pets}/samples/{kept}", json={"label": 2})
    assert answer.json()["label"] == 2


def test_lists_show_a_bound_token_its_own_models_alone(served: Served, pets: str) -> None:
    for name in (pets, "app-faces"):
        path = f"/v1/models/{name}/samples"
        content = npz(x=np.eye(2, dtype=np.float32), label=np.array([0, 1]))
        served.http.post(
            path, content=content, headers={"Content-Type": "application/x-npz"}
        ).raise_for_status()
    mine, theirs = (served.ask_for_job(name)["id"] for name in (pets, "app-faces"))
    with client(served.url, token=token(served, "reads", "models:read", models=[pets])) as app:
        assert [entry["name"] for entry in app.get("/v1/models").json()["items"]] == [pets]
        assert {entry["model"] for entry in app.get("/v1/jobs").json()["items"]} == {pets}
        assert app.get(f"/v1/jobs/{mine}").status_code == 200
        assert app.get(f"/v1/jobs/{theirs}").json() == app.get("/v1/jobs/999999").json() | {
            "detail": f"there is no job {theirs}; GET /v1/jobs lists them"
        }
        assert app.get("/v1/jobs", params={"model": "app-faces"}).status_code == 403
        assert app.get("/v1/events", params={"model": "app-faces"}).status_code == 403
        gauges = app.get("/metrics").text
    assert f'honed_samples{{model="{pets}",split="train"}}' in gauges
    assert "app-faces" not in gauges
    assert "honed_eligible" not in gauges
    assert "honed_eligible" in served.http.get("/metrics").text


def test_events_of_other_models_are_not_told(served: Served, pets: str) -> None:
    secret = token(served, "listens", "models:read", models=[pets])
    with (
        client(served.url, token=secret) as app,
        app.stream("GET", "/v1/events", params={"last_event_id": 0}) as stream,
    ):
        for name in ("app-faces", pets):
            served.http.patch(f"/v1/models/{name}", json={"hyperparameters": {"epochs": 2}})
        told: list[str] = []
        for line in stream.iter_lines():
            if line.startswith("data: "):
                told.append(line)
            if "model.updated" in line and line.startswith("event"):
                break
    assert any(f'"model":"{pets}"' in line for line in told)
    assert not [line for line in told if f'"model":"{pets}"' not in line and "lost" not in line]


def test_a_token_of_a_model_may_not_let_a_job_ignore_the_policy(served: Served, pets: str) -> None:
    with client(served.url, token=token(served, "trains", "train", models=[pets])) as app:
        refused = app.post(f"/v1/models/{pets}/jobs", json={"ignore_policy": True})
        job = app.post(f"/v1/models/{pets}/jobs", json={}).json()["id"]
        forced = app.post(f"/v1/jobs/{job}/resume", json={"ignore_policy": True})
        ended = app.post(f"/v1/jobs/{job}/cancel")
    for answer in (refused, forced):
        assert (answer.status_code, answer.json()["code"]) == (403, "insufficient_scope")
        assert "device:policy" in answer.json()["detail"]
    assert ended.status_code in (200, 409)


def test_registering_needs_a_name_that_the_token_is_bound_to(served: Served) -> None:
    with client(served.url, token=token(served, "grows", "models:admin", models=["mine"])) as app:
        answers = [
            app.post(
                "/v1/models",
                data={"spec": f'{{"name": "{name}", "loss": "cross_entropy"}}'},
                files={"model": ("model.onnx", mlp(2, 4, 3))},
            )
            for name in ("others", "mine")
        ]
        assert [answer.status_code for answer in answers] == [403, 201]
        assert app.delete("/v1/models/mine").status_code == 204
