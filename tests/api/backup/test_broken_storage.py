"""A daemon whose disk fails says so at once, and ends, so that a supervisor starts it again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from disk_faults import failing_sync
from support import DEADLINE_S, Served, blobs, client, mlp


@pytest.fixture
def trigger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file: once it exists, the next flush of the log of a daemon's database fails."""
    faults, trigger = failing_sync(tmp_path / "fault", suffix="hone.db-wal")
    for name, value in faults.items():
        monkeypatch.setenv(name, value)
    return trigger


def test_a_daemon_that_cannot_write_is_not_ready_from_then_on(
    serve_inside: Callable[..., Any],
) -> None:
    inside = serve_inside()
    with client(inside.url) as asking:
        assert asking.get("/readyz").status_code == 200
        inside.daemon.store._writer.refuse("disk I/O error")
        answer = asking.get("/readyz")
    assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")


def test_a_daemon_that_cannot_write_ends_without_what_its_tokens_have_used(
    serve: Callable[..., Served], trigger: Path
) -> None:
    broken = serve()
    broken.register("m", mlp(8, 8, 2))
    wanted = {"name": "app", "scopes": ["models:read"]}
    secret = broken.http.post("/v1/tokens", json=wanted).json()["secret"]
    with client(broken.url, token=secret) as app:
        app.get("/v1/models/m")
        trigger.touch()
        app.post("/v1/models", json={})  # refused, which the audit log has to write down

    broken.offer("m", **blobs(20, 8, 2))

    assert broken.process.wait(DEADLINE_S) == 3
    broken.stop()
    log = broken.log.read_text()
    assert "Traceback" not in log
    assert "daemon.stopped" in log


def test_a_daemon_that_cannot_write_ends_with_its_own_exit_code_and_starts_again(
    serve: Callable[..., Served], trigger: Path
) -> None:
    broken = serve()
    broken.register("m", mlp(8, 8, 2))
    broken.upload("m", **blobs(20, 8, 2))
    trigger.touch()

    refused = broken.offer("m", **blobs(20, 8, 2, seed=1))

    assert (refused.status_code, refused.json()["code"]) == (500, "storage_broken")
    assert broken.process.wait(DEADLINE_S) == 3
    broken.stop()
    assert "writer.broken" in broken.log.read_text()

    again = serve()
    counts = again.http.get("/v1/models/m").json()["samples"]
    assert counts["train"] + counts["validation"] in (20, 40)
    assert again.upload("m", **blobs(20, 8, 2, seed=2)).status_code == 201
