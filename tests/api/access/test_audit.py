"""The audit log: what changes, leaves and is refused, and nothing of what samples hold."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import closing

import httpx
import pytest
from audit_entries import entries, make_token, since, told
from support import Served, blobs, client, mlp, wait_until

KEY, LABEL, SECRET = "patient-Miller-17", 2, "hone_not-a-secret-of-ours"


@pytest.fixture(scope="module")
def model(served: Served) -> str:
    served.register("audited", mlp(2, 4, 3))
    return "audited"


def test_changes_are_told_with_who_what_when_and_from_where(served: Served, model: str) -> None:
    began = since()
    secret, who = make_token(served, "adds", "samples:write", models=[model])
    path = f"/v1/models/{model}/samples"
    with client(served.url, token=secret) as app:
        app.post(path, json={"inputs": {"x": [1, 2]}, "key": KEY}).raise_for_status()
        app.patch(path, params={"key": KEY}, json={"label": LABEL}).raise_for_status()
    served.http.patch(f"/v1/models/{model}", json={"hyperparameters": {"epochs": 3}})
    served.http.post("/v1/snooze", json={"minutes": 1}).raise_for_status()
    served.http.delete("/v1/snooze").raise_for_status()
    found = entries(served, **began)
    assert told(found) == [
        ("change", "admin", "make_token"),
        ("samples", who, "add_samples"),
        ("samples", who, "change_sample_by_key"),
        ("change", "admin", "change_model"),
        ("change", "admin", "snooze"),
        ("change", "admin", "end_snooze"),
    ]
    assert {(each["address"], each["count"], each["code"]) for each in found} == {
        ("127.0.0.1", 1, None)
    }
    assert (found[-2]["path"], found[-2]["model"]) == (path, model)


def test_a_registration_is_told_with_its_model(served: Served) -> None:
    began = since()
    served.register("audited-too", mlp(2, 4, 3))
    served.http.delete("/v1/models/audited-too").raise_for_status()
    assert [entry["action"] for entry in entries(served, model="audited-too", **began)] == [
        "delete_model",
        "register",
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="Unix sockets are for Linux")
def test_on_the_socket_the_user_is_told(served: Served) -> None:
    began = since()
    with client(f"unix:{served.data_dir / 'api.sock'}") as asking:
        asking.delete("/v1/snooze").raise_for_status()
    (found,) = entries(served, **began)
    assert (found["who"], found["address"]) == (f"uid {os.geteuid()}", "socket")


def test_what_was_wrong_is_no_change(served: Served, model: str) -> None:
    began = since()
    served.http.post(f"/v1/models/{model}/samples", json={"inputs": {"x": [1]}})
    served.http.delete("/v1/models/nothing")
    served.http.get("/v1/models").raise_for_status()
    served.http.post(f"/v1/models/{model}/predict", json={"inputs": {"x": [1, 2]}})
    assert entries(served, **began) == []


def test_predictions_that_are_kept_are_told(served: Served, model: str) -> None:
    began = since()
    body = {"inputs": {"x": [7, 8]}}
    served.http.post(f"/v1/models/{model}/predict?keep=true", json=body).raise_for_status()
    assert told(entries(served, **began)) == [("samples", "admin", "predict")]


def test_a_jobs_moves_by_hand_are_told(served: Served, model: str) -> None:
    path = f"/v1/models/{model}/samples"
    for label in range(3):
        served.http.post(path, json={"inputs": {"x": [label, 5]}, "label": label})
    began = since()
    served.http.post("/v1/pause").raise_for_status()
    job = served.ask_for_job(model)["id"]
    served.http.post(f"/v1/jobs/{job}/cancel").raise_for_status()
    served.http.post("/v1/resume").raise_for_status()
    found = entries(served, **began)
    assert [each["action"] for each in reversed(found)] == [
        *("pause_all", "ask_for_job", "cancel_job", "resume_all")
    ]
    assert (found[1]["path"], found[1]["model"]) == (f"/v1/jobs/{job}/cancel", model)


def test_exports_are_told_and_answers_without_content_are_not(served: Served, model: str) -> None:
    began = since()
    latest = f"/v1/models/{model}/latest/model.onnx"
    tag = served.http.get(latest).headers["etag"]
    assert served.http.get(latest, headers={"If-None-Match": tag}).status_code == 304
    assert served.http.head(latest).status_code == 200
    served.http.get(f"/v1/models/{model}/samples/archive").raise_for_status()
    served.http.get("/v1/backup").raise_for_status()

    def exports() -> list[str]:
        return [entry["action"] for entry in reversed(entries(served, kind="export", **began))]

    wait_until(lambda: len(exports()) >= 3, "the exports to be written")
    found = [(entry["action"], entry["count"]) for entry in entries(served, kind="export", **began)]
    assert found == [("back_up", 1), ("export_samples", 1), ("latest_file", 1)]


def test_samples_that_are_read_one_by_one_are_counted_together(served: Served, model: str) -> None:
    began = since()
    path = f"/v1/models/{model}/samples"
    first = served.upload(model, **blobs(20, 2, 3)).json()["ids"][0]
    for sample_id in range(first, first + 20):
        served.http.get(f"{path}/{sample_id}/content").raise_for_status()

    def counted() -> list[tuple[str, int]]:
        found = entries(served, action="sample_content", **began)
        return [(each["path"], each["count"]) for each in found]

    wait_until(lambda: sum(count for _, count in counted()) == 20, "the exports to be written")
    assert {path for path, _ in counted()} == {f"{path}/{{sample_id}}/content"}
    assert len(counted()) < 20


def test_refusals_are_counted_and_tell_the_code(served: Served, model: str) -> None:
    began = since()
    secret, who = make_token(served, "reads", "samples:read", models=[model])
    with client(served.url, token=secret) as app:
        assert app.delete(f"/v1/models/{model}").status_code == 403
        assert app.get("/v1/models/others/samples").status_code == 403
    for _ in range(3):
        assert served.tokenless.get(f"/v1/models/{SECRET}").status_code == 401
    served.tokenless.get(f"/{SECRET}")
    served.http.get("/v1/models", headers={"Origin": "http://evil.example"})

    def refusals() -> Counter[tuple[str, ...]]:
        """How many there were of each; entries of one second are one."""
        found: Counter[tuple[str, ...]] = Counter()
        for entry in entries(served, kind="refusal", **began):
            found[entry["who"], entry["action"], entry["path"], entry["code"]] += entry["count"]
        return found

    wait_until(lambda: refusals().total() >= 7, "the refusals to be written")
    assert refusals() == {
        (who, "delete_model", f"/v1/models/{model}", "insufficient_scope"): 1,
        (who, "list_samples", "/v1/models/others/samples", "insufficient_scope"): 1,
        ("nobody", "GET", "/v1/models", "unauthorized"): 3,
        ("nobody", "GET", "(another path)", "unauthorized"): 1,
        ("nobody", "GET", "/v1/models", "foreign_origin"): 1,
    }


def test_a_quota_that_is_used_up_is_told(served: Served) -> None:
    began = since()
    secret, who = make_token(served, "sends", "predict", limits={"predictions_per_second": 0.001})
    with client(served.url, token=secret) as app:
        statuses = [app.post("/v1/models/none/predict").status_code for _ in range(3)]
    assert statuses == [404, 429, 429]

    def refused() -> int:
        found = entries(served, who=who, **began)
        assert {each["code"] for each in found} <= {"quota_exceeded"}
        return sum(each["count"] for each in found)

    wait_until(lambda: refused() == 2, "the refusals to be written")


def test_no_key_label_or_secret_gets_into_the_log(served: Served, model: str) -> None:
    began = since()
    secret, _ = make_token(served, "looks", "samples:write", models=[model])
    path = f"/v1/models/{model}/samples"
    with client(served.url, token=secret) as app:
        app.post(path, json={"inputs": {"x": [72.8125, 4]}, "key": KEY + "b", "label": 1})
        app.get(path, params={"key": KEY})
    served.tokenless.get(path, headers={"Authorization": f"Bearer {SECRET}"})
    wait_until(lambda: entries(served, kind="refusal", **began), "the refusal")
    text = json.dumps(entries(served))
    for hidden in (KEY, SECRET, secret, served.token, "72.8125"):
        assert hidden not in text


@pytest.mark.parametrize(
    "query",
    [
        *("kind=other", "limit=0", "since=yesterday", "since=0", "until=0.5", "since=2026-11-22"),
        *("since=0001-01-01T00:00:00%2B14:00", "until=9999-12-31T23:59:59-14:00"),
    ],
)
def test_a_wrong_filter_is_refused(served: Served, query: str) -> None:
    assert served.http.get(f"/v1/audit?{query}").status_code == 422


def test_after_a_kill_every_change_has_its_entry(serve: Callable[..., Served]) -> None:
    first = serve()
    first.register("m", mlp(2, 4, 3))
    accepted: list[int] = []

    def send() -> None:
        with client(first.url, token=first.token) as app:
            while True:
                body = {"inputs": {"x": [len(accepted), 1]}}
                try:
                    answer = app.post("/v1/models/m/samples", json=body)
                except httpx.TransportError:
                    return
                accepted.append(answer.json()["ids"][0])

    sending = threading.Thread(target=send)
    sending.start()
    wait_until(lambda: len(accepted) > 30, "some uploads")
    first.stop(signal.SIGKILL)
    sending.join()
    second = serve()
    assert second.http.get("/v1/models/m").status_code == 200
    second.stop()
    with closing(sqlite3.connect(second.data_dir / "hone.db")) as database:
        (stored,) = database.execute("SELECT count(*) FROM samples").fetchone()
        (logged,) = database.execute("SELECT count(*) FROM audit WHERE kind = 'samples'").fetchone()
    assert stored == logged >= len(accepted)


def test_entries_that_wait_are_written_when_the_daemon_stops(serve: Callable[..., Served]) -> None:
    first = serve()
    assert first.tokenless.get("/v1/jobs").status_code == 401
    first.stop()
    assert [entry["path"] for entry in entries(serve(), kind="refusal")] == ["/v1/jobs"]
