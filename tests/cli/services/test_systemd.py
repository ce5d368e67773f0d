"""`honed service` on a system that does not run: real files, and systemd's own tools."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.errors import Failure
from cli.services import systemd
from cli.services.systemd import Service

pytestmark = [
    pytest.mark.usefixtures("clean_environment"),
    pytest.mark.skipif(shutil.which("systemctl") is None, reason="there is no systemctl"),
]

WANTED = ("sockets.target.wants/honed.socket", "multi-user.target.wants/honed.service")


@pytest.fixture
def system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bare system; homes are elsewhere, since the tests' own program may lie in one."""
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    monkeypatch.setattr(systemd, "HOMES", ())
    return root


def test_what_is_installed_starts_with_the_system_and_is_gone_afterwards(
    system: Path, honed: Callable[..., Any]
) -> None:
    units = system / "etc/systemd/system"
    done = honed("service", "install", "--root", system)
    assert done.returncode == 0, done.stderr
    assert f"to start with the system in {system}" in done.stdout
    program = Path(sys.executable).with_name("honed")
    assert f"ExecStart={program} serve" in (units / "honed.service").read_text()
    assert [(units / name).is_symlink() for name in WANTED] == [True, True]
    assert "honed:" in (system / "etc/passwd").read_text()
    assert not (units / "honed.service.d/tcp.conf").exists()

    assert honed("service", "install", "--tcp", "--root", system).returncode == 0
    done = honed("service", "uninstall", "--root", system)
    assert done.returncode == 0, done.stderr
    assert [(units / name).is_symlink() for name in WANTED] == [False, False]
    assert list(system.rglob("honed.s*")) == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
@pytest.mark.parametrize("is_user", [False, True])
def test_systemd_understands_what_is_installed(
    system: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_user: bool
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(Service, "systemctl", lambda *_: "")
    program = tmp_path / "my models 100%" / "honed"
    program.parent.mkdir()
    program.symlink_to(Path(sys.executable).with_name("honed"))
    monkeypatch.setattr(systemd, "installed_program", lambda: program)
    service = Service(is_user, system)
    list(service.install(tcp=True))
    found = [path for path in service.files(tcp=False) if path.suffix in {".service", ".socket"}]
    done = subprocess.run(
        ["systemd-analyze", "verify", *found],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_tcp_is_opened_and_closed_by_installing_again(system: Path) -> None:
    drop_in = system / "etc/systemd/system/honed.service.d/tcp.conf"
    list(Service(root=system).install(tcp=True))
    assert "HONED_TCP=true" in drop_in.read_text()
    list(Service(root=system).install(tcp=False))
    assert not drop_in.exists()


def test_a_program_in_a_home_is_no_service_of_the_machine(
    system: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(systemd, "HOMES", (Path(sys.executable).parent,))
    with pytest.raises(Failure, match=r"/opt/honed.*--user"):
        list(Service(root=system).install())
    assert list(system.rglob("honed*")) == []


def test_a_service_of_the_users_own_is_in_no_other_system(
    system: Path, honed: Callable[..., Any]
) -> None:
    done = honed("service", "install", "--user", "--root", system)
    assert (done.returncode, done.stdout) == (1, "")
    assert "--user or --root" in done.stderr


def test_what_is_not_installed_cannot_be_removed(system: Path, honed: Callable[..., Any]) -> None:
    done = honed("service", "uninstall", "--root", system)
    assert done.returncode == 1
    assert "there is no service of Hone" in done.stderr


def test_a_systemd_that_does_not_run_is_said(honed: Callable[..., Any]) -> None:
    if Path("/run/systemd/system").is_dir():
        pytest.skip("systemd runs here")
    done = honed("service", "status")
    assert done.returncode == 1
    assert "systemctl show" in done.stderr


def test_a_service_of_the_users_own_is_where_systemd_looks_for_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Service, "is_running", False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    *_, last = Service(is_user=True).install()
    assert last == "enabled honed.service: to start with your session"
    units = tmp_path / "config/systemd/user"
    assert (units / "default.target.wants/honed.service").is_symlink()
    list(Service(is_user=True).uninstall())
    assert not (tmp_path / "home").exists()


def test_nothing_is_written_where_the_users_systemd_does_not_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Service, "is_running", True)
    for name in ("HOME", "XDG_RUNTIME_DIR"):
        monkeypatch.setenv(name, str(tmp_path))
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    with pytest.raises(Failure, match="loginctl enable-linger"):
        list(Service(is_user=True).install())
    assert list(tmp_path.iterdir()) == []


def test_without_its_programs_it_is_told_what_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(Failure, match=r"no systemctl here: .* needs systemd"):
        Service(is_user=True).systemctl("daemon-reload")
