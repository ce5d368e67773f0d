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
        (
            {"new_samples": 5, "hyperparameters": {"class_weights": [1]}},
            "/hyperparameters/class_weights",
        ),
        (
            {"new_samples": 5, "hyperparameters": {"optimizer": "lion", "momentum": 0.9}},
            "/hyperparameters/momentum",
        ),
        ({"eligible_after": "soon"}, "/eligible_after"),
        ({"eligible_after": "9999-12-31T23:59:59-01:00"}, "/eligible_after"),
        ({"cron": "0 0 31 2 *"}, "/cron"),
        ({"every": 5}, "/every"),
    ],
)
def test_a_trigger_that_cannot_work_is_refused_with_its_place(
    served: Served, model: str, body: dict, pointer: str
) -> None:
    answer = served.http.post(f"/v1/models/{model}/triggers", json=body)

    assert answer.status_code == 422
    assert pointer in [fault["pointer"] for fault in answer.json()["errors"]]


def test_a_change_to_hyperparameters_that_no_job_can_have_is_refused(
    served: Served, model: str
) -> None:
    made = served.http.post(f"/v1/models/{model}/triggers", json={"new_samples": 10**6})
    one = made.headers["Location"]
    refused = served.http.patch(one, json={"hyperparameters": {"class_weights": [1]}})
    assert refused.status_code == 422
    assert served.http.get(one).json() == made.json()


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


def test_a_changed_trigger_waits_anew_under_the_name_of_its_kind(served: Served) -> None:
    served.register("changes", mlp(4, 8, 2))
    served.upload("changes", **blobs(50, 4, 2))
    path = "/v1/models/changes/triggers"
    one = served.http.post(path, json={"cron": "0 3 * * *"}).headers["Location"]
    served.upload("changes", **blobs(50, 4, 2, seed=1))

    changed = served.http.patch(one, json={"cron": None, "new_samples": 40}).json()
    served.upload("changes", **blobs(39, 4, 2, seed=2))
    named = served.http.patch(one, json={"name": "lots"}).json()
    again = served.http.patch(one, json={"new_samples": None, "at_most_every_hours": 24}).json()

    assert (changed["name"], named["name"], again["name"]) == ("samples", "lots", "lots")
    assert (changed["tried_at"], changed["outcome"]) == (None, "")
    assert jobs_of(served, "changes") == []


def test_an_instant_that_is_over_asks_for_one_job(served: Served) -> None:
    served.register("late", mlp(4, 8, 2))
    served.upload("late", **blobs(100, 4, 2))
    trigger = {"eligible_after": "2020-01-01T00:00:00Z", "hyperparameters": {"max_steps": 1}}
    one = served.http.post("/v1/models/late/triggers", json=trigger).headers["Location"]

    (job,) = wait_until(lambda: jobs_of(served, "late"), "a job")
    served.wait_for_job(job["id"], "succeeded")
    for enabled in (False, True):
        assert served.http.patch(one, json={"enabled": enabled}).status_code == 200
    other = {"new_samples": 1, "hyperparameters": {"max_steps": 1}}
    served.http.post("/v1/models/late/triggers", json=other)
    served.upload("late", **blobs(10, 4, 2, seed=1))
    wait_until(lambda: len(jobs_of(served, "late")) == 2, "the job of another trigger")

    assert {job["trigger"] for job in jobs_of(served, "late")} == {"eligible", "samples"}


@pytest.mark.parametrize("zone", ["UTC0", "CET-1CEST,M3.5.0,M10.5.0/3", "Europe/Berlim"])
def test_triggers_are_taken_in_every_time_zone(
    serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch, zone: str
) -> None:
    monkeypatch.setenv("TZ", zone)
    served = serve()
    served.register("m", mlp(4, 8, 2))

    rules = ({"cron": "0 3 * * *"}, {"eligible_after": "02:00"}, {"new_samples": 5})
    answers = [served.http.post("/v1/models/m/triggers", json=rule) for rule in rules]

    assert [answer.status_code for answer in answers] == [201, 201, 201]
    served.stop()
    assert "rror" not in served.log.read_text()
