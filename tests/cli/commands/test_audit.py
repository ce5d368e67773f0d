"""`honed audit` checks and exports the log, also of a daemon whose database somebody changed."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from support import Served

from cli import main

Honed = Callable[..., Result]


@pytest.fixture
def daemon(serve: Callable[..., Served]) -> Served:
    """With some entries in its log."""
    served = serve()
    for minutes in range(1, 6):
        served.http.post("/v1/snooze", json={"minutes": minutes}).raise_for_status()
    return served


def honed(served: Served, *arguments: object) -> Result:
    where = {"HONED_URL": served.url, "HONED_TOKEN": served.token}
    words = [str(argument) for argument in arguments]
    return CliRunner().invoke(main.honed, words, env=where, catch_exceptions=False)


def tampered(serve: Callable[..., Served], served: Served, *statements: str) -> Served:
    """The daemon again, after somebody has changed its database."""
    served.stop()
    with closing(sqlite3.connect(served.data_dir / "hone.db")) as connection, connection:
        connection.execute("DROP TRIGGER audit_is_never_changed")
        for statement in statements:
            connection.execute(statement)
    return serve()


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("ascii").splitlines()]


def test_a_log_that_nobody_touched_is_whole(daemon: Served) -> None:
    done = honed(daemon, "audit", "--verify", "--json")
    assert done.exit_code == 0, done.stderr
    (last,) = daemon.http.get("/v1/audit", params={"limit": 1}).json()["items"]
    assert json.loads(done.stdout) == {
        "entries": 5,
        "removed": 0,
        "last_id": 5,
        "last_hash": last["hash"],
    }
    assert "5 entries follow one another" in honed(daemon, "audit", "--verify").stdout


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE audit SET who = 'token 1' WHERE id = 2",
        "DELETE FROM audit WHERE id = 2",
        "INSERT INTO audit SELECT 9, at, kind, who, address, action, path, model, code, count, "
        "facts, previous, hash FROM audit WHERE id = 2",
    ],
)
def test_a_log_that_was_changed_fails(
    serve: Callable[..., Served], daemon: Served, change: str
) -> None:
    done = honed(tampered(serve, daemon, change), "audit", "--verify")
    assert done.exit_code == 1
    assert done.stderr.startswith("error: ")


def test_an_export_grows_by_what_is_new(daemon: Served, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    assert honed(daemon, "audit", "--export", path).exit_code == 0
    first = path.read_bytes()
    if os.name != "nt":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with path.open("ab") as file:
        file.write(b'{"id":6,"at":"cut off')
    daemon.http.delete("/v1/snooze").raise_for_status()
    done = honed(daemon, "audit", "--export", path)
    assert done.exit_code == 0, done.stderr
    assert "6 entries" in done.stdout
    assert path.read_bytes().startswith(first)
    assert [each["action"] for each in read(path)] == [*["snooze"] * 5, "end_snooze"]
    assert honed(daemon, "audit", "--export", path).exit_code == 0
    assert len(read(path)) == 6


def test_a_log_that_was_written_anew_does_not_continue_an_export(
    serve: Callable[..., Served], daemon: Served, tmp_path: Path
) -> None:
    """Whoever can change the database can also compute all hashes again."""
    path = tmp_path / "audit.jsonl"
    assert honed(daemon, "audit", "--export", path).exit_code == 0
    before = path.read_bytes()
    again = tampered(
        serve, daemon, "DELETE FROM audit", "DELETE FROM sqlite_sequence WHERE name = 'audit'"
    )
    for minutes in range(11, 18):
        again.http.post("/v1/snooze", json={"minutes": minutes}).raise_for_status()
    assert honed(again, "audit", "--verify").exit_code == 0
    done = honed(again, "audit", "--export", path)
    assert done.exit_code == 1
    assert "the log does not continue the export" in done.stderr
    assert path.read_bytes() == before


def test_an_export_that_was_changed_is_told_and_left_alone(daemon: Served, tmp_path: Path) -> None:
    path = tmp_path / "audit.jsonl"
    assert honed(daemon, "audit", "--export", path).exit_code == 0
    path.write_bytes(path.read_bytes().replace(b'"count":1', b'"count":7', 1))
    before = path.read_bytes()
    done = honed(daemon, "audit", "--export", path)
    assert done.exit_code == 1
    assert f"{path}: an entry is not what was written" in done.stderr
    assert path.read_bytes() == before


@pytest.mark.parametrize("more", [("--who", "admin"), ("--export", "x")])
def test_the_whole_log_is_verified_and_exported(daemon: Served, more: tuple[str, ...]) -> None:
    done = honed(daemon, "audit", "--verify", *more)
    assert done.exit_code == 2
