"""The node of a federation as a service: real files, and systemd's own tools."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cli.services.bridge import BridgeService

pytestmark = [
    pytest.mark.usefixtures("clean_environment"),
    pytest.mark.skipif(shutil.which("systemctl") is None, reason="there is no systemctl"),
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of nobody, on a system that systemd does not run."""
    if Path("/run/systemd/system").is_dir():
        pytest.skip("systemd runs here, and would start it")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return tmp_path


def test_a_service_is_enabled_and_gone_afterwards(home: Path) -> None:
    service = BridgeService("digits")
    command = ["/bin/echo", "join", "fl.example:9092", "--folder", "100% mine"]
    told = list(service.install(command, {"HONED_TOKEN": "secret"}, home))
    assert told[-1] == "enabled honed-federate-digits.service: it starts with your session"
    assert (home / "environment").read_text() == "HONED_TOKEN=secret\n"
    assert (home / "environment").stat().st_mode & 0o777 == 0o600
    unit = service.path.read_text()
    assert "secret" not in unit
    assert '"100%% mine"' in unit
    wanted = service.path.parent / "default.target.wants" / service.path.name
    assert wanted.is_symlink()
    list(service.uninstall())
    assert not wanted.is_symlink()
    assert not service.path.exists()
    assert list(service.uninstall()) == []


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd-analyze")
def test_systemd_understands_the_unit(home: Path) -> None:
    service = BridgeService("digits")
    list(service.install(["/bin/echo", 'a "b" $c'], {}, home))
    done = subprocess.run(
        ["systemd-analyze", "verify", service.path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
