"""Triggers over HTTP, and the jobs that they ask for."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta, timezone

import pytest
from support import Served, blobs, mlp, wait_until


@pytest.fixture(scope="module")
def model(served: Served) -> str:
    served.register("triggered", mlp(4, 8, 2))
    served.upload("triggered", **blobs(100, 4, 2))
    return "triggered"


def jobs_of(served: Served, model: str) -> list[dict]:
    return served.http.get("/v1/jobs", params={"model": model}).json()["items"]


def test_a_trigger_is_made_listed_shown_changed_and_deleted(served: Served, model: str) -> None:
    path = f"/v1/models/{model}/triggers"
    made = served.http.post(path, json={"cron": "0 3 * * sun", "time_zone": "Europe/Berlin"})
    one = made.headers["Location"]

    changed = served.http.patch(one, json={"enabled": False, "hyperparameters": {"epochs": 3}})

    assert made.status_code == 201
    assert made.json()["name"] == "cron"
    assert (changed.json()["enabled"], changed.json()["cron"]) == (False, "0 3 * * sun")
    assert changed.json()["hyperparameters"] == {"epochs": 3}
    assert served.http.get(one).json() == changed.json()
    assert changed.json() in served.http.get(path).json()["items"]
    assert served.http.delete(one).status_code == 204
    assert served.http.get(one).status_code == 404


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({}, ""),
        ({"cron": "every day"}, "/cron"),
        ({"cron": "0 3 * * *", "time_zone": "Berlin"}, "/time_zone"),
        ({"new_samples": 0}, "/new_samples"),
        ({"new_samples": 5, "hyperparameters": {"epochs": 0}}, "/hyperparameters/epochs"),
        ({"eligible_after": "soon"}, "/eligible_after"),
        ({"every": 5}, "/every"),
    ],
)
def test_a_trigger_that_cannot_work_is_refused_with_its_place(
    served: Served, model: str, body: dict, pointer: str
) -> None:
    answer = served.http.post(f"/v1/models/{model}/triggers", json=body)

    assert answer.status_code == 422
    assert pointer in [fault["pointer"] for fault in answer.json()["errors"]]


def test_a_trigger_of_another_model_is_not_found(served: Served, model: str) -> None:
    served.register("untriggered", mlp(4, 8, 2))
    made = served.http.post(f"/v1/models/{model}/triggers", json={"new_samples": 10**6}).json()

    answer = served.http.get(f"/v1/models/untriggered/triggers/{made['id']}")

    assert answer.status_code == 404


def test_new_samples_ask_for_a_job(served: Served) -> None:
    served.register("grows", mlp(4, 8, 2))
    trigger = {"new_samples": 50, "hyperparameters": {"max_steps": 3}, "name": "lots"}
    made = served.http.post("/v1/models/grows/triggers", json=trigger)
    served.upload("grows", **blobs(20, 4, 2))
    served.upload("grows", **blobs(40, 4, 2, seed=1))

    (job,) = wait_until(lambda: jobs_of(served, "grows"), "a job")
    shown = wait_until(
        lambda: served.http.get(made.headers["Location"]).json()["job_id"], "the trigger to tell"
    )

    assert (job["trigger"], job["hyperparameters"]["max_steps"]) == ("lots", 3)
    assert shown == job["id"]
    served.wait_for_job(job["id"], "succeeded")


def test_a_trigger_is_rebuilt_after_a_restart(serve: Callable[..., Served]) -> None:
    first = serve()
    first.register("m", mlp(4, 8, 2))
    first.upload("m", **blobs(100, 4, 2))
    soon = datetime.now(timezone.utc) + timedelta(seconds=2)
    trigger = {"eligible_after": soon.isoformat(), "hyperparameters": {"max_steps": 1}}
    assert first.http.post("/v1/models/m/triggers", json=trigger).status_code == 201
    first.stop()

    second = serve()
    (job,) = wait_until(lambda: jobs_of(second, "m"), "a job")

    assert job["trigger"] == "eligible"
    second.wait_for_job(job["id"], "succeeded")
    assert len(jobs_of(second, "m")) == 1
