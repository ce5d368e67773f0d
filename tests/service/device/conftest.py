"""A clock that the test turns, trees that stand in for /sys and /proc, and a bus of its own."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from support import DEADLINE_S, wait_until

from service.device.linux.bus import SystemBus
from service.device.reading import Moment, Reading

BUS_CONFIG = """<!DOCTYPE busconfig PUBLIC "-//freedesktop//DTD D-Bus Bus Configuration 1.0//EN"
 "http://www.freedesktop.org/standards/dbus/1.0/busconfig.dtd">
<busconfig>
  <type>system</type>
  <listen>unix:tmpdir=/tmp</listen>
  <policy context="default">
    <allow send_destination="*"/><allow receive_sender="*"/><allow own="*"/><allow user="*"/>
  </policy>
</busconfig>
"""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "needs_dbusmock: needs the Debian packages python3-dbusmock and dbus"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    marked = [item for item in items if item.get_closest_marker("needs_dbusmock")]
    missing = _missing_for_dbusmock() if marked else ""
    for item in marked if missing else ():
        item.add_marker(pytest.mark.skip(reason=missing))


def _missing_for_dbusmock() -> str:
    if sys.platform != "linux":
        return "logind is a service of Linux"
    if shutil.which("dbus-daemon") is None:
        return "no dbus-daemon: apt-get install dbus"
    if _mock_python() is None:
        return "no python-dbusmock: apt-get install python3-dbusmock"
    return ""


@cache
def _mock_python() -> str | None:
    """An interpreter that can import dbusmock: Debian's lives beside the virtual environment."""
    for python in (sys.executable, "/usr/bin/python3"):
        if Path(python).exists():
            tried = subprocess.run(
                [python, "-c", "import dbusmock"], check=False, capture_output=True
            )
            if tried.returncode == 0:
                return python
    return None


@pytest.fixture
def by_name() -> Callable[[tuple[Reading, ...]], dict[str, Reading]]:
    return lambda readings: {reading.name: reading for reading in readings}


@pytest.fixture
def tree(tmp_path: Path) -> Callable[..., Path]:
    """Write files below a root: tree({"class/x/type": "Battery"})."""

    def write(files: dict[str, str], root: str = "sys") -> Path:
        folder = tmp_path / root
        folder.mkdir(exist_ok=True)
        for name, content in files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"{content}\n")
        return folder

    return write


@pytest.fixture
def private_bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a system bus that only this test knows."""
    config = tmp_path / "bus.conf"
    config.write_text(BUS_CONFIG)
    daemon = subprocess.Popen(
        ["dbus-daemon", f"--config-file={config}", "--nofork", "--print-address"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert daemon.stdout is not None
    address = daemon.stdout.readline().strip()
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", address)
    yield address
    _end(daemon)


class Mock:
    """A service of python-dbusmock, steered over the bus as any client would."""

    def __init__(self, process: subprocess.Popen[bytes], service: str, path: str) -> None:
        self.process = process
        self.service = service
        self.path = path
        self._bus = SystemBus()

    def call(self, method: str, signature: str, *body: Any, path: str = "") -> tuple[Any, ...]:
        return self._bus.call(
            Moment.now(),
            service=self.service,
            path=path or self.path,
            interface="org.freedesktop.DBus.Mock",
            method=method,
            signature=signature,
            body=body,
        )

    def set(self, path: str, interface: str, **properties: tuple[str, Any]) -> None:
        self.call("UpdateProperties", "sa{sv}", interface, properties, path=path)

    def stop(self) -> None:
        """As if it hung: it lives and answers nobody."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def close(self) -> None:
        self._bus.close()
        if self.process.poll() is None:
            os.kill(self.process.pid, signal.SIGCONT)
        _end(self.process)


@pytest.fixture
def mock(private_bus: str) -> Iterator[Callable[[str, str, str], Mock]]:
    """Start a template of dbusmock: mock("logind", service, path)."""
    running: list[Mock] = []

    def start(template: str, service: str, path: str) -> Mock:
        python = _mock_python()
        assert python is not None
        process = subprocess.Popen(
            [python, "-m", "dbusmock", "--system", "--template", template],
            env={**os.environ, "DBUS_SYSTEM_BUS_ADDRESS": private_bus},
        )
        running.append(Mock(process, service, path))
        wait_until(lambda: _is_owned(service), f"{service} on the bus")
        return running[-1]

    yield start
    for service in running:
        service.close()


def _is_owned(service: str) -> bool:
    bus = SystemBus()
    (owned,) = bus.call(
        Moment.now(),
        service="org.freedesktop.DBus",
        path="/org/freedesktop/DBus",
        interface="org.freedesktop.DBus",
        method="NameHasOwner",
        signature="s",
        body=(service,),
    )
    bus.close()
    return bool(owned)


def _end(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    process.wait(timeout=DEADLINE_S)
    if process.stdout is not None:
        process.stdout.close()
