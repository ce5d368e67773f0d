"""A daemon whose disk fails says so at once, and ends, so that a supervisor starts it again."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from disk_faults import failing_sync
from small_disks import break_disk, of_blocks
from support import DEADLINE_S, Served, blobs, client, mlp


@pytest.fixture
def trigger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file: once it exists, the next flush of the log of a daemon's database fails."""
    faults, trigger = failing_sync(tmp_path / "fault", suffix="hone.db-wal")
    for name, value in faults.items():
        monkeypatch.setenv(name, value)
    return trigger


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    with of_blocks(tmp_path / "disk", size_mib=64) as folder:
        yield folder


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
    again.upload("m", **blobs(20, 8, 2, seed=2))


def test_a_disk_that_became_read_only_ends_the_daemon_as_other_faults_of_it_do(
    disk: Path, serve: Callable[..., Served]
) -> None:
    broken = serve(disk, disk_reserve_bytes=0)
    broken.register("m", mlp(8, 8, 2))
    broken.upload("m", **blobs(20, 8, 2))
    break_disk(disk)

    refused = broken.offer("m", **blobs(20, 8, 2, seed=1))

    assert (refused.status_code, refused.json()["code"]) == (500, "storage_broken")
    assert broken.process.wait(DEADLINE_S) == 3
    broken.stop()
    log = broken.log.read_text()
    assert "Traceback" not in log
    assert "Read-only file system; check the disk and the data folder" in log


def test_a_daemon_does_not_start_on_a_read_only_disk_and_says_why(
    disk: Path, serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    serve(disk).stop()
    break_disk(disk)
    monkeypatch.setenv("HONED_DATA_DIR", str(disk))
    monkeypatch.setenv("HONED_PORT", "1")
    serving, checking = (
        subprocess.run(  # noqa: PLW1510 - the code is looked at below
            [sys.executable, "-m", "cli", command],
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        for command in ("serve", "doctor")
    )
    assert serving.returncode == checking.returncode == 1
    assert "Traceback" not in serving.stderr
    assert "Read-only file system; check the disk and the data folder" in serving.stderr
    assert "cannot write: Read-only file system" in checking.stdout
    assert "too many files" not in checking.stdout
