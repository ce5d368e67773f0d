from __future__ import annotations

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import DEADLINE_S, wait_until

from cli.client import Client
from cli.demo.daemon import DaemonProcess, running


@pytest.fixture
def file(honed: Callable[..., Any], add_model: Callable[..., str], tmp_path: Path) -> Path:
    add_model(samples=20)
    path = tmp_path / "backup.zip"
    done = honed("backup", "-o", path)
    assert done.returncode == 0, done.stderr
    return path


def test_a_backup_is_a_whole_zip_for_its_owner_alone(
    honed: Callable[..., Any], add_model: Callable[..., str], tmp_path: Path
) -> None:
    add_model(samples=20)

    done = honed("backup", "-o", tmp_path / "backup.zip", "--json")

    told = json.loads(done.stdout)
    assert told["size_bytes"] == (tmp_path / "backup.zip").stat().st_size
    assert (told["missing"], told["damaged"]) == ([], [])
    with zipfile.ZipFile(tmp_path / "backup.zip") as archive:
        assert archive.testzip() is None
        assert len(archive.namelist()) == told["files"] + 1
    assert [path.name for path in tmp_path.glob("*backup*")] == ["backup.zip"]
    if os.name != "nt":
        assert stat.S_IMODE((tmp_path / "backup.zip").stat().st_mode) == 0o600


def test_a_backup_that_cannot_be_written_leaves_nothing(
    honed: Callable[..., Any], tmp_path: Path
) -> None:
    done = honed("backup", "-o", tmp_path / "nowhere" / "backup.zip")

    assert done.returncode == 1
    assert "cannot write" in done.stderr
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
@pytest.mark.parametrize("command", ["backup", "archive export m"])
@pytest.mark.parametrize("how", ["SIGTERM", "SIGHUP"])
def test_a_backup_or_export_that_is_ended_leaves_nothing(
    tmp_path: Path, command: str, how: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        output = str(tmp_path / "backup.zip")
        words = [sys.executable, "-m", "honed", *command.split(), "-o", output]
        variables = {**os.environ, "HONED_URL": url, "HONED_TOKEN": "none"}
        process = subprocess.Popen(words, env=variables, stderr=subprocess.PIPE)
        wait_until(lambda: any(tmp_path.glob("*.partial")), "a part")
        process.send_signal(getattr(signal, how))
        process.communicate(timeout=DEADLINE_S)
    assert not any(tmp_path.glob("*backup*"))
    assert process.returncode == -signal.SIGTERM  # which systemd counts as no failure


def test_a_backup_removes_what_killed_ones_of_other_days_have_left(
    honed: Callable[..., Any], tmp_path: Path
) -> None:
    for name in ("device-1231", "device-0102", "other"):
        (tmp_path / f".{name}.zip.17.partial").touch()
    for name in ("device-1231", "other"):
        os.utime(tmp_path / f".{name}.zip.17.partial", (1, 1))
    assert honed("backup", "-o", tmp_path / "device-0103.zip").returncode == 0
    left = sorted(path.name for path in tmp_path.glob("*.zip*"))
    assert left == [".device-0102.zip.17.partial", ".other.zip.17.partial", "device-0103.zip"]


def test_a_restored_folder_serves_what_was_backed_up(
    honed: Callable[..., Any], client: Client, file: Path, tmp_path: Path
) -> None:
    done = honed("restore", file, "--data-dir=~/new/data", "--json", HOME=str(tmp_path))

    told = json.loads(done.stdout)
    assert told["set_aside"] is None
    assert told["samples"] >= 20
    with running(tmp_path / "new" / "data") as restored:
        ours, theirs = (list(each.items("/v1/models")) for each in (client, restored.client))
        assert {model["name"]: model["samples"] for model in theirs}.items() <= {
            model["name"]: model["samples"] for model in ours
        }.items()
        assert len(theirs) == told["models"]


def test_the_folder_of_a_running_daemon_is_refused(
    honed: Callable[..., Any], daemon: DaemonProcess, file: Path
) -> None:
    done = honed("restore", file, "--data-dir", daemon.token_file.parent, "--replace")

    assert done.returncode == 1
    assert f"in use by process {daemon.process.pid}" in done.stderr


def test_data_are_replaced_only_when_asked(
    honed: Callable[..., Any], file: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    assert honed("restore", file, "--data-dir", folder).returncode == 0

    refused = honed("restore", file, "--data-dir", folder)
    replaced = honed("restore", file, "--data-dir", folder, "--replace")

    assert refused.returncode == 1
    assert "--replace" in refused.stderr
    (aside,) = tmp_path.glob("data.replaced-*")
    assert str(aside) in replaced.stdout
    assert (aside / "hone.db").exists()


def test_a_file_that_is_no_backup_is_refused(
    honed: Callable[..., Any], npz: Callable[..., Path], tmp_path: Path
) -> None:
    done = honed("restore", npz(3), "--data-dir", tmp_path / "data")

    assert done.returncode == 1
    assert "this is no backup of Hone" in done.stderr
    assert not (tmp_path / "data").exists()
