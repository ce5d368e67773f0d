"""The service of Windows, as far as it goes elsewhere: with doubles of Windows' own programs."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from support import wait_until

from cli.commands import serve
from cli.errors import Failure
from cli.services import windows_host
from cli.services.windows import ACCOUNT, WindowsService
from cli.services.windows_host import HostedDaemon
from service.settings import load_settings

pytestmark = [
    pytest.mark.usefixtures("clean_environment"),
    pytest.mark.skipif(os.name != "posix", reason="icacls is a double, a shell script"),
]

ICACLS = '#!/bin/sh\nprintf "%s\\n" "$@" > "$PROGRAMDATA/told"\n'


class Services:
    """A double of the service control manager."""

    def __init__(self) -> None:
        self.states: dict[str, str] = {}
        self.created: dict[str, Any] = {}

    def state(self, name: str) -> str | None:
        return self.states.get(name)

    def create(
        self, name: str, *, command: str, environment: Mapping[str, str], account: str
    ) -> None:
        self.states[name] = "stopped"
        self.created = {"command": command, "environment": environment, "account": account}

    def start(self, name: str) -> None:
        self.states[name] = "running"

    def stop(self, name: str) -> None:
        self.states[name] = "stopped"

    def delete(self, name: str) -> None:
        assert self.states.pop(name) == "stopped"


@pytest.fixture
def program_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "icacls").write_text(ICACLS)
    (programs / "icacls").chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("PROGRAMDATA", str(tmp_path))
    return tmp_path


def test_it_is_installed_with_a_folder_of_its_own_and_removed_without(program_data: Path) -> None:
    services = Services()
    service = WindowsService(services)
    assert service.status() == {"honed": "not installed"}

    steps = list(service.install())
    assert steps[-1] == "started honed"
    data = program_data / "Hone" / "data"
    assert data.is_dir()
    assert services.created["account"] == ACCOUNT
    assert services.created["command"].endswith(f"-I -m honed service run --data-dir {data}")
    told = (program_data / "told").read_text().splitlines()
    assert told[:3] == [str(data.parent), "/inheritance:r", "/grant:r"]
    assert f"{ACCOUNT}:(OI)(CI)M" in told
    assert service.status() == {"honed": "running"}
    with pytest.raises(Failure, match="already"):
        list(service.install())

    list(service.uninstall())
    assert service.status() == {"honed": "not installed"}
    assert data.is_dir()
    with pytest.raises(Failure, match="no service"):
        list(service.uninstall())


def test_a_service_whose_folder_cannot_be_closed_is_taken_back(
    program_data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (program_data / "bin/icacls").write_text("#!/bin/sh\necho denied >&2\nexit 5\n")
    services = Services()
    with pytest.raises(Failure, match=r"icacls .* failed: denied"):
        list(WindowsService(services).install())
    assert not services.states


class Framework:
    """A double of pywin32's side of the process of a service."""

    def __init__(self) -> None:
        self.states: list[int] = []
        self.accepted: list[int] = []

    def register(self, name: str, handler: Callable[[int, int, Any], None]) -> str:
        self.handler = handler
        return name

    def report(self, _handle: str, status: tuple[int, ...]) -> None:
        self.states.append(status[1])
        self.accepted.append(status[2])


@pytest.fixture
def own_logging() -> Iterator[None]:
    """The daemon takes all logging for itself."""
    root = logging.getLogger()
    before = root.handlers[:], root.level
    yield
    root.handlers[:], root.level = before


@pytest.mark.usefixtures("own_logging")
@pytest.mark.parametrize("control", [windows_host.STOP, windows_host.PRESHUTDOWN])
def test_the_real_daemon_runs_in_the_thread_of_the_service_until_windows_stops_it(
    tmp_path: Path, control: int
) -> None:
    framework, addresses = Framework(), list[str]()
    settings = load_settings(data_dir=tmp_path / "data", port=0)

    def run(asked: threading.Event, listening: Callable[[list[str]], None]) -> int:
        def told(urls: list[str]) -> None:
            addresses.extend(urls)
            listening(urls)

        return serve.run_daemon(settings, on_listening=told, asked_to_stop=asked)

    hosted = HostedDaemon("honed", framework=framework, run=run)
    thread = threading.Thread(target=hosted.SvcRun)
    thread.start()
    wait_until(lambda: windows_host.RUNNING in framework.states, "the daemon")
    assert framework.states == [windows_host.START_PENDING, windows_host.RUNNING]
    assert framework.accepted[-1] == windows_host.ACCEPT_STOP | windows_host.ACCEPT_PRESHUTDOWN
    url = next(each for each in addresses if each.startswith("http"))
    assert httpx.get(f"{url}/healthz").status_code == 200

    framework.handler(windows_host.INTERROGATE, 0, None)
    framework.handler(control, 0, None)
    thread.join(60)
    assert not thread.is_alive()
    assert framework.states[2:] == [windows_host.RUNNING, windows_host.STOP_PENDING]


def test_a_daemon_that_failed_ends_the_service_with_an_error() -> None:
    hosted = HostedDaemon("honed", framework=Framework(), run=lambda _stop, _listening: 3)
    with pytest.raises(RuntimeError, match="ended with 3"):
        hosted.SvcRun()


def test_the_log_before_is_kept_when_it_is_large(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows_host, "MOST_LOG_BYTES", 3)
    for name in ("stdout", "stderr"):
        monkeypatch.setattr(sys, name, getattr(sys, name))
    for line in ("first", "second"):
        windows_host.log_to(tmp_path / "honed.log")
        sys.stdout.write(f"{line}\n")
        sys.stdout.close()
    assert (tmp_path / "honed.log").read_text() == "second\n"
    assert (tmp_path / "honed.1.log").read_text() == "first\n"
