from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import DEADLINE_S

from cli.commands.serve import WRONG_SETTING
from cli.demo.daemon import DaemonProcess, running


def test_where_it_listens_and_where_the_token_is_are_said_but_never_the_token(
    tmp_path: Path,
) -> None:
    with running(tmp_path) as daemon:
        log = (tmp_path / "daemon.log").read_text(encoding="utf-8")
        token = daemon.token_file.read_text(encoding="ascii").strip()
    assert f"honed listens on {daemon.client.url}" in log
    assert f"the dashboard is at {daemon.client.url}/dashboard" in log
    assert f"the admin token is in {daemon.token_file}" in log
    assert token not in log


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX")
def test_the_end_of_its_terminal_stops_the_daemon_in_order(tmp_path: Path) -> None:
    with running(tmp_path) as daemon:
        daemon.process.send_signal(signal.SIGHUP)
        assert daemon.process.wait(DEADLINE_S) == 0
    assert "daemon.stopped" in (tmp_path / "daemon.log").read_text(encoding="utf-8")


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux shows what is ignored")
def test_under_nohup_the_daemon_outlives_its_terminal(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with running(tmp_path) as daemon:
            status = Path(f"/proc/{daemon.process.pid}/status").read_text("ascii")
    finally:
        signal.signal(signal.SIGHUP, before)
    ignored = int(status.partition("SigIgn:")[2].split()[0], 16)
    assert ignored & 1 << signal.SIGHUP - 1


def test_a_port_in_use_is_said(daemon: DaemonProcess, program: Callable[..., Any]) -> None:
    port = daemon.client.url.rpartition(":")[2]
    done = program("serve", "--port", port)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in done.stderr


def test_settings_that_are_not_where_they_were_said_to_be_stop_the_start(
    program: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for named in (tmp_path / "none.toml", tmp_path):
        monkeypatch.setenv("HONED_CONFIG", str(named))
        done = program("serve", "--port", 0)
        assert done.returncode == WRONG_SETTING
        assert f"HONED_CONFIG: there is no file {named}" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_path_that_the_system_refuses_is_said_in_words(
    program: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    refused = tmp_path / ("x" * 300)
    for command in (["serve", "--port", "0"], ["doctor", "--repair"]):
        monkeypatch.setenv("HONED_DATA_DIR", str(refused))
        done = program(*command)
        assert done.returncode == 1
        assert f"cannot open the data folder {refused}: File name too long" in done.stderr
    monkeypatch.setenv("HONED_CONFIG", str(refused))
    assert program("serve").stderr == f"error: {refused}: File name too long\n"


@pytest.mark.parametrize(
    ("variable", "value"), [("PORT", "70000"), ("PRT", "9000"), ("ON_PROMOTED", "nosuch")]
)
def test_a_wrong_setting_is_said_and_ends_the_start_for_good(
    program: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, variable: str, value: str
) -> None:
    monkeypatch.setenv(f"HONED_{variable}", value)
    done = program("serve")
    assert done.returncode == WRONG_SETTING
    assert f"HONED_{variable}" in done.stderr


def test_a_damaged_token_ends_the_start_with_its_reason_alone(
    program: Callable[..., Any], tmp_path: Path
) -> None:
    with running(tmp_path) as daemon:
        token = daemon.token_file
    token.write_text("cut off", encoding="ascii")
    done = program("serve", "--port", "0", "--data-dir", str(token.parent))
    assert done.returncode == 1
    assert f"{token} is damaged" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_folder_of_other_things_is_refused_by_name(
    program: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "letters").mkdir()
    done = program("serve", "--port", "0", "--data-dir", str(tmp_path))
    assert done.returncode == 1
    assert "holds the folder 'letters' and no data of Hone" in done.stderr


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away"
)
def test_root_does_not_serve_the_data_of_another_user(
    program: Callable[..., Any], tmp_path: Path
) -> None:
    database = tmp_path / "hone.db"
    database.touch()
    os.chown(database, 4242, -1)
    done = program("serve", "--port", "0", "--data-dir", str(tmp_path))
    assert done.returncode == 1
    assert "belongs to the user with id 4242; serve it as that user" in done.stderr
    assert list(tmp_path.iterdir()) == [database]
