"""What must not get into the audit log: changes that were refused, and text that is no text."""

from __future__ import annotations

import pytest
from audit_entries import entries, make_token, since
from support import Served, blobs, client, mlp, wait_until


@pytest.fixture(scope="module")
def model(served: Served) -> str:
    served.register("abused", mlp(2, 4, 3))
    return "abused"


MOVES = ("cancel", "pause", "resume")


def test_refused_moves_of_jobs_are_no_changes(served: Served, model: str) -> None:
    path = f"/v1/models/{model}/samples"
    for label in range(3):
        served.http.post(path, json={"inputs": {"x": [label, 6]}, "label": label})
    served.http.post("/v1/pause").raise_for_status()
    job = served.ask_for_job(model)["id"]
    served.http.post(f"/v1/jobs/{job}/cancel").raise_for_status()
    served.http.post("/v1/resume").raise_for_status()
    secret, who = make_token(served, "moves", "train", "federate")
    forged = "1/cancel%0a2026-11-25%20admin%1b[2K%e2%80%ae"
    with client(served.url, token=secret) as app:
        for move in MOVES:
            assert app.post(f"/v1/jobs/{job}/{move}").status_code == 409
            assert app.post(f"/v1/jobs/{2**62}/{move}").status_code == 404
            for wrong in (forged, "0", "x" * 2000, str(2**63)):
                assert app.post(f"/v1/jobs/{wrong}/{move}").status_code in (404, 422)
        assert app.delete(f"/v1/rounds/{2**62}").status_code == 404
    assert entries(served, who=who) == []


def test_a_running_job_s_moves_are_told_once_and_before_they_are_made(served: Served) -> None:
    served.register("moved", mlp(4, 256, 3))
    served.upload("moved", **blobs(600, 4, 3))
    began = since()
    job = served.ask_for_job("moved", epochs=10_000, ignore_policy=True)["id"]
    served.wait_for_job(job, "running")
    wait_until(lambda: served.job(job)["progress"]["step"], "the first steps")
    for move in ("pause", "resume", "cancel"):
        served.http.post(f"/v1/jobs/{job}/{move}").raise_for_status()
        if move == "resume":
            served.wait_for_job(job, "running")
    ended = served.wait_for_job(job)["finished_at"]
    found = entries(served, **began)
    assert [each["action"] for each in reversed(found)] == [
        *("ask_for_job", "pause_job", "resume_job", "cancel_job")
    ]
    assert found[0]["at"] < ended


def test_what_others_name_is_kept_as_plain_text(served: Served) -> None:
    secret, who = make_token(served, "forges", "models:read", models=["own"])
    forged = "%0a2026%1b[31madmin%e2%80%ae%c2%9b"
    with client(served.url, token=secret) as app:
        assert app.delete(f"/v1/models/{forged}").status_code == 403
        assert app.request("X" * 300, "/v1/models").status_code in (403, 405)
    served.tokenless.request("Y" * 300, "/v1/models")
    wait_until(lambda: entries(served, who=who), "the refusal")
    found = entries(served, who=who)
    assert [(each["path"], each["model"]) for each in found] == [
        ("/v1/models/%0A2026%1B%5B31madmin%E2%80%AE%C2%9B", None)
    ]
    wait_until(lambda: entries(served, action="(another method)"), "the refusal")
