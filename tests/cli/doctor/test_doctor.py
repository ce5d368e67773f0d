from __future__ import annotations

import json
import os
import socket
import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from cli import listener
from cli.client import Client
from cli.demo.daemon import DaemonProcess
from cli.doctor import doctor
from service.access.token_secrets import admin_token
from service.installation import checks
from service.settings import Settings
from storage.database.opening import open_database

pytestmark = pytest.mark.usefixtures("clean_environment")
posix = pytest.mark.skipif(os.name != "posix", reason="file modes are POSIX")


def test_a_sound_machine_has_no_failures(honed: Callable[..., Any]) -> None:
    done = honed("doctor", "--json")
    found = {check["name"]: check for check in json.loads(done.stdout)}
    assert done.returncode == 0, done.stdout
    assert found["runtime"]["status"] == found["training"]["status"] == "ok"
    assert found["daemon"]["status"] == "ok"
    if sys.platform == "linux":
        assert found["sandbox"]["detail"].endswith("a child was refused: a socket, /etc/passwd")
    assert all(check["remedy"] for check in found.values() if check["status"] != "ok")


def test_every_line_begins_with_its_status(honed: Callable[..., Any]) -> None:
    lines = honed("doctor").stdout.splitlines()
    assert {line[:4].strip() for line in lines} <= {"ok", "warn", "fail", ""}
    assert all(line.strip().startswith("->") for line in lines if line[:4].strip() == "")


def test_a_wrong_setting_fails_with_its_name(honed: Callable[..., Any]) -> None:
    done = honed("doctor", HONED_PORT="99999")
    assert done.returncode == 1
    assert "fail  settings" in done.stdout
    assert "HONED_PORT" in done.stdout


def test_without_a_runtime_no_step_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "installed_version", lambda _: None)
    names = [check.name for check in doctor.all_checks(Client(), verify=False)]
    assert "runtime" in names
    assert "training" not in names


@posix
def test_a_token_that_others_can_read_fails(tmp_path: Path) -> None:
    token = tmp_path / "admin.token"
    assert checks.check_token_file(token).status == "ok"
    admin_token(tmp_path)
    assert checks.check_token_file(token).status == "ok"
    token.chmod(0o644)
    check = checks.check_token_file(token)
    assert (check.status, check.remedy) == ("fail", f"chmod 600 {token}")
    token.write_text("")
    token.chmod(0o600)
    check = checks.check_token_file(token)
    assert (check.status, check.detail) == ("fail", f"{token} is empty or damaged")


@posix
def test_a_data_folder_that_others_can_read_fails(
    honed: Callable[..., Any], tmp_path: Path
) -> None:
    data_dir = tmp_path / "open"
    data_dir.mkdir(mode=0o700)
    (data_dir / "hone.db").touch(mode=0o600)
    assert checks.check_permissions(data_dir).status == "ok"
    (data_dir / "hone.db").chmod(0o644)

    done = honed("doctor", "--json", HONED_DATA_DIR=str(data_dir))

    found = {check["name"]: check for check in json.loads(done.stdout)}
    check = found["permissions"]
    assert done.returncode == 1
    assert (check["status"], check["detail"]) == ("fail", f"others may read {data_dir / 'hone.db'}")
    assert f"chmod -R go= {data_dir}" in check["remedy"]


@posix
@pytest.mark.skipif(os.name == "posix" and os.geteuid() == 0, reason="root writes anywhere")
def test_a_data_folder_that_cannot_be_written_fails(tmp_path: Path) -> None:
    tmp_path.chmod(stat.S_IRUSR | stat.S_IXUSR)
    statuses = [check.status for check in doctor.check_data_dir(tmp_path / "data")]
    assert statuses[0] == "fail"


def test_a_data_folder_that_is_a_file_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    statuses = [check.status for check in doctor.check_data_dir(tmp_path / "file")]
    assert statuses[0] == "fail"


def test_the_data_folder_is_not_made(tmp_path: Path) -> None:
    assert [c.status for c in doctor.check_data_dir(tmp_path / "a" / "b")] == ["ok", "ok", "ok"]
    assert list(tmp_path.iterdir()) == []


def test_the_filesystem_of_a_folder_is_named(tmp_path: Path) -> None:
    assert checks.filesystem(tmp_path) != "unknown"


def test_a_port_that_another_program_holds_fails() -> None:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port = holder.getsockname()[1]
        settings = Settings(port=port)
        check = doctor.check_port(settings)
        assert check.status == "fail"
        assert f"127.0.0.1:{port}" in check.detail
    assert doctor.check_port(settings).status == "ok"


def test_a_daemon_that_is_not_running_is_a_warning() -> None:
    daemon, port = doctor.check_daemon(Client(url="http://127.0.0.1:1"))
    assert (daemon.status, daemon.remedy) == ("warn", "honed serve")
    assert port.name == "port"


def test_the_database_of_a_stopped_daemon_is_checked(tmp_path: Path) -> None:
    path = tmp_path / "hone.db"
    assert list(doctor.check_stopped_database(path)) == []
    with closing(open_database(path, check=False)) as connection:
        assert list(doctor.check_stopped_database(path)) == []
        connection.execute("UPDATE _sqlite_migrations SET name = 'm999' WHERE id = 1")
        (newer,) = doctor.check_stopped_database(path)
    path.write_bytes(b"no database" * 99)
    (damaged,) = doctor.check_stopped_database(path)
    assert (newer.status, damaged.status) == ("fail", "fail")
    assert "m999" in newer.detail
    assert "install the newer Hone" in str(newer.remedy)
    assert "file is not a database" in damaged.detail
    assert "honed restore FILE --replace" in str(damaged.remedy)


def test_a_running_daemon_says_its_version(daemon: DaemonProcess) -> None:
    token = daemon.token_file.read_text("ascii")
    (check,) = doctor.check_daemon(Client(url=daemon.client.url, token=token))
    assert check.status == "ok"


def test_a_daemon_whose_data_are_elsewhere_is_a_warning(daemon: DaemonProcess) -> None:
    check, access = doctor.check_daemon(Client(url=daemon.client.url))
    assert (check.status, access.status) == ("ok", "warn")
    assert "set HONED_DATA_DIR to its data folder" in str(access.remedy)


@pytest.mark.skipif(sys.platform != "linux", reason="the service has a Unix socket there")
def test_the_folder_of_the_service_is_checked_for_who_has_none(
    daemon: DaemonProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    data_dir = daemon.token_file.parent
    monkeypatch.setattr(listener, "SOCKET_OF_SERVICE", data_dir / "api.sock")
    monkeypatch.setenv("HONED_DATA_DIR", str(tmp_path / "none"))
    with closing(Client()) as client:
        found = {check.name: check for check in doctor.all_checks(client, verify=False)}
    assert found["data folder"].detail == str(data_dir)
    assert found["token"].detail == str(data_dir / "admin.token")


def test_a_stranger_at_the_address_fails(daemon: DaemonProcess) -> None:
    (check,) = doctor.check_daemon(Client(url=daemon.client.url + "/v1"))
    assert check.status == "fail"
    assert "is not honed" in check.detail


@pytest.mark.skipif(os.name != "posix", reason="Windows says that it is missing")
def test_a_token_file_that_cannot_be_looked_at_fails(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    check = checks.check_token_file(tmp_path / "file" / "admin.token")
    assert check.status == "fail"


@pytest.mark.parametrize(
    ("variable", "words"),
    [
        ("TLS_CERTIFICATE", "belong together"),
        ("ON_PROMOTED", "there is no program 'nosuch'"),
        ("SOCKET_USERS", "there is no user 'nosuch'"),
        ("REGISTRY_CREDENTIALS", "nosuch: No such file or directory"),
    ],
)
def test_a_setting_that_a_start_would_refuse_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, variable: str, words: str
) -> None:
    monkeypatch.setenv("HONED_DATA_DIR", str(tmp_path))
    value = '{"nosuch": ["*"]}' if variable == "SOCKET_USERS" else "nosuch"
    monkeypatch.setenv(f"HONED_{variable}", value)
    *_, settings = doctor.all_checks(Client(), verify=False)
    assert (settings.name, settings.status) == ("settings", "fail")
    assert words in settings.detail


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="mounts, as root on Linux")
def test_a_folder_that_takes_no_bytes_is_told_with_what_helps(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], check=True)
    try:
        with suppress(OSError), (folder / "fill").open("wb", buffering=0) as fill:
            while fill.write(bytes(4096)):
                pass
        full, *_ = doctor.check_data_dir(folder)
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        readonly, *_ = doctor.check_data_dir(folder)
    finally:
        subprocess.run(["umount", folder], check=True)
    assert (full.status, readonly.status) == ("fail", "fail")
    assert "free some space" in str(full.remedy)
    assert "mount it for writing" in str(readonly.remedy)


def test_an_interpreter_that_cannot_be_started_is_a_failed_check(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("cli.doctor.doctor.PROBE", "service.installation.checks.SANDBOX_PROBE"):
        monkeypatch.setattr(name, [str(tmp_path)])
    found = (doctor.check_engine_runs(), checks.check_sandbox())
    for check in found[: 2 if sys.platform == "linux" else 1]:
        assert check.status == "fail"
        assert "cannot be started" in check.detail
