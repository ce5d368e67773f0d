from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
        assert done.returncode == 1
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


def test_a_wrong_port_is_said(program: Callable[..., Any]) -> None:
    done = program("serve", "--port", 70000)
    assert done.returncode == 1
    assert "HONED_PORT" in done.stderr


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
