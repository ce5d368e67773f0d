"""`honed service` on macOS, as far as it goes elsewhere: with a double of launchctl."""

from __future__ import annotations

import os
import plistlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [
    pytest.mark.usefixtures("clean_environment"),
    pytest.mark.skipif(os.name != "posix", reason="the double is a shell script"),
]

LAUNCHCTL = """#!/bin/sh
echo "$*" >> "$HOME/told"
case $1 in
    bootstrap) touch "$HOME/loaded" ;;
    bootout) rm "$HOME/loaded" 2>/dev/null || exit 3 ;;
    print) [ -e "$HOME/loaded" ] || exit 113; printf 'honed = {\\n\\tstate = running\\n}\\n' ;;
esac
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/launchctl").write_text(LAUNCHCTL)
    (tmp_path / "bin/launchctl").chmod(0o755)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr("cli.commands.service.sys.platform", "darwin")
    return tmp_path


def test_the_agent_starts_the_installed_program_and_is_gone_afterwards(
    home: Path, honed: Callable[..., Any]
) -> None:
    path = home / "Library/LaunchAgents/honed.plist"
    done = honed("service", "install", "--user")
    assert done.returncode == 0, done.stderr
    definition = plistlib.loads(path.read_bytes())
    program = str(Path(sys.executable).with_name("honed"))
    assert definition["ProgramArguments"] == [program, "serve"]
    assert definition["KeepAlive"] == {"SuccessfulExit": False}
    assert Path(definition["StandardErrorPath"]).parent.is_dir()
    assert honed("service", "status", "--user").stdout.split() == ["honed", "running"]

    done = honed("service", "uninstall", "--user")
    assert done.returncode == 0, done.stderr
    assert not path.exists()
    assert honed("service", "status", "--user").stdout.split() == ["honed", "not", "installed"]
    domain = f"gui/{os.getuid()}"
    assert (home / "told").read_text().splitlines() == [
        f"bootstrap {domain} {path}",
        f"print {domain}/honed",
        f"bootout {domain}/honed",
        f"print {domain}/honed",
    ]


def test_an_agent_that_launchd_has_forgotten_can_be_removed(
    home: Path, honed: Callable[..., Any]
) -> None:
    assert honed("service", "install", "--user").returncode == 0
    (home / "loaded").unlink()
    assert honed("service", "uninstall", "--user").returncode == 0
    assert not (home / "Library/LaunchAgents/honed.plist").exists()


def test_an_installed_agent_is_not_written_over(home: Path, honed: Callable[..., Any]) -> None:
    assert honed("service", "install", "--user").returncode == 0
    done = honed("service", "install", "--user")
    assert done.returncode == 1
    assert "uninstall --user` comes first" in done.stderr


@pytest.mark.parametrize("options", [[], ["--user", "--root", "/tmp"]])
def test_there_is_no_service_of_the_machine(
    home: Path, honed: Callable[..., Any], options: list[str]
) -> None:
    done = honed("service", "install", *options)
    assert done.returncode == 1
    assert "give --user" in done.stderr
    assert not (home / "Library").exists()
