"""The node of a federation as a service: real files, systemd's own tools, a double of launchctl."""

from __future__ import annotations

import os
import plistlib
import shutil
import subprocess
from pathlib import Path

import pytest

from cli.services.bridge import BridgeAgent, Unit, bridge_service

pytestmark = pytest.mark.usefixtures("clean_environment")
with_systemctl = pytest.mark.skipif(
    shutil.which("systemctl") is None, reason="there is no systemctl"
)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of nobody, on a system that systemd does not run."""
    if Path("/run/systemd/system").is_dir():
        pytest.skip("systemd runs here, and would start it")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


@with_systemctl
def test_a_service_is_enabled_and_gone_afterwards(home: Path) -> None:
    service = Unit("digits")
    command = ["/bin/echo", "join", "fl.example:9092", "--folder", "100% mine"]
    told = list(service.install(command, {"HONED_TOKEN": "secret"}, home))
    assert told[-1] == "enabled honed-federate-digits.service: it starts with your session"
    assert (home / "environment").read_text() == "HONED_TOKEN=secret\n"
    assert (home / "environment").stat().st_mode & 0o777 == 0o600
    unit = (home / "config/systemd/user/honed-federate-digits.service").read_text()
    assert "secret" not in unit
    assert '"100%% mine"' in unit
    wanted = service.path.parent / "default.target.wants" / service.path.name
    assert wanted.is_symlink()
    assert service.is_of(home)
    assert not service.is_of(home / "other")
    list(service.uninstall())
    assert not wanted.is_symlink()
    assert not service.path.exists()
    assert list(service.uninstall()) == []


@with_systemctl
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_understands_the_unit(home: Path) -> None:
    service = Unit("digits")
    list(service.install(["/bin/echo", 'a "b" $c'], {}, home))
    done = subprocess.run(
        ["systemd-analyze", "verify", service.path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(os.name != "posix", reason="the double is a shell script")
def test_an_agent_keeps_its_variables_to_the_user_and_replaces_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "told"
    launchctl = tmp_path / "launchctl"
    launchctl.write_text(f'#!/bin/sh\necho "$*" >> {told}\n')
    launchctl.chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    agent = BridgeAgent("digits")
    for secret in ("first", "second"):
        list(agent.install(["/bin/echo", "join"], {"HONED_TOKEN": secret}, tmp_path))
    path = tmp_path / "Library/LaunchAgents/honed-federate-digits.plist"
    assert path.stat().st_mode & 0o777 == 0o600
    definition = plistlib.loads(path.read_bytes())
    assert definition["ProgramArguments"] == ["/bin/echo", "join"]
    assert definition["EnvironmentVariables"]["HONED_TOKEN"] == "second"
    assert agent.is_of(tmp_path)
    assert not agent.is_of(tmp_path / "other")
    list(agent.uninstall())
    assert not path.exists()
    domain = f"gui/{os.getuid()}"
    start, stop = f"bootstrap {domain} {path}", f"bootout {domain}/honed-federate-digits"
    assert told.read_text().splitlines() == [start, stop, start, stop]
    assert list(agent.uninstall()) == []


def test_a_system_of_another_kind_has_no_service(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cli.services.bridge.sys.platform", "win32")
    assert bridge_service("digits") is None
