"""What systemd hears of a real daemon, and no longer hears when a part of it stands still."""

from __future__ import annotations

import asyncio
import json
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import DEADLINE_S, Served, wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="systemd is Linux's")

PERIOD_S = 0.6


class Systemd:
    """The other end of NOTIFY_SOCKET."""

    def __init__(self, path: Path) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(path))

    def hears(self, *, within_s: float = DEADLINE_S) -> str | None:
        """The next message, None if there is none in time."""
        self._socket.settimeout(within_s)
        try:
            return self._socket.recv(4096).decode()
        except TimeoutError:
            return None

    def starves(self) -> bool:
        """Whether the watchdog would end the daemon; what was already on its way does not count."""
        self.hears(within_s=PERIOD_S)
        return self.hears(within_s=2 * PERIOD_S) is None

    def close(self) -> None:
        self._socket.close()


@pytest.fixture
def systemd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Systemd]:
    path = tmp_path / "notify"
    monkeypatch.setenv("NOTIFY_SOCKET", str(path))
    monkeypatch.setenv("WATCHDOG_USEC", str(int(PERIOD_S * 1e6)))
    listening = Systemd(path)
    yield listening
    listening.close()


def test_systemd_is_told_of_start_work_and_end(
    systemd: Systemd, serve: Callable[..., Served]
) -> None:
    served = serve(log_format="json")
    assert [systemd.hears() for _ in range(4)] == ["READY=1", *["WATCHDOG=1"] * 3]
    served.stop()
    told = [json.loads(line)["event"] for line in served.said().splitlines()]
    assert {"daemon.listens", "daemon.stopped"} <= set(told)
    said = []
    while (message := systemd.hears(within_s=PERIOD_S)) is not None:
        said.append(message)
    assert said[-1] == "STOPPING=1"


def test_a_watchdog_of_another_process_is_not_fed(
    systemd: Systemd, serve: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WATCHDOG_PID", "1")
    serve()
    assert systemd.hears() == "READY=1"
    assert systemd.hears(within_s=2 * PERIOD_S) is None


@pytest.fixture
def fed(systemd: Systemd, serve_inside: Callable[..., Any]) -> Any:
    """A daemon of this process whose watchdog is fed."""
    inside = serve_inside()
    assert [systemd.hears() for _ in range(2)] == ["READY=1", "WATCHDOG=1"]
    return inside


def is_told(caplog: pytest.LogCaptureFixture, part: str) -> bool:
    return any(
        record.message == "watchdog.starves" and record.__dict__["fields"]["part"] == part
        for record in caplog.records
    )


def test_a_writer_that_stands_still_starves_the_watchdog(
    fed: Any, systemd: Systemd, caplog: pytest.LogCaptureFixture
) -> None:
    go_on = threading.Event()
    writing = threading.Thread(
        target=fed.daemon.store._writer.write, args=(lambda _: go_on.wait(),)
    )
    writing.start()
    try:
        assert systemd.starves()
        wait_until(lambda: is_told(caplog, "writer"), "the log to name the part")
    finally:
        go_on.set()
        writing.join()
    assert systemd.hears() == "WATCHDOG=1"


def test_a_scheduler_that_stands_still_starves_the_watchdog(
    fed: Any, systemd: Systemd, caplog: pytest.LogCaptureFixture
) -> None:
    moving = fed.daemon.scheduler._moving
    asyncio.run_coroutine_threadsafe(moving.acquire(), fed.loop).result(DEADLINE_S)
    try:
        assert systemd.starves()
        wait_until(lambda: is_told(caplog, "scheduler"), "the log to name the part")
    finally:
        fed.call(moving.release)
    assert systemd.hears() == "WATCHDOG=1"


def test_an_event_loop_that_stands_still_starves_the_watchdog(fed: Any, systemd: Systemd) -> None:
    go_on = threading.Event()
    fed.call(go_on.wait)
    try:
        assert systemd.starves()
    finally:
        go_on.set()
    assert systemd.hears() == "WATCHDOG=1"


def test_no_child_finds_what_systemd_told_the_daemon(
    fed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from service.processes.interpreter import foreign_environment

    given: dict[str, Any] = foreign_environment()
    assert not given.keys() & {"NOTIFY_SOCKET", "WATCHDOG_USEC", "LISTEN_FDS"}
