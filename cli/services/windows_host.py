"""The service's process on Windows: reports the daemon's state to the service control manager."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cli.services import control_manager

STOP, INTERROGATE, SHUTDOWN, PRESHUTDOWN = 1, 4, 5, 15
"""SERVICE_CONTROL_… of winsvc.h."""
START_PENDING, STOP_PENDING, RUNNING = 2, 3, 4
"""SERVICE_… of winsvc.h."""
ACCEPT_STOP, ACCEPT_PRESHUTDOWN = 0x1, 0x100
OWN_PROCESS = 0x10
START_MS = 1_000_000
"""A first start after an update may take as long as under systemd."""
STOP_MS = 60_000
MOST_LOG_BYTES = 10 * 2**20

Run = Callable[[threading.Event, Callable[[list[str]], None]], int]
"""Runs the daemon until the event is set; calls the function once it listens.

Returns the exit code.
"""


class HostedDaemon:
    """The object that pywin32 creates and runs in the service's thread.

    A stop, and a shutdown before Windows stops other services, end the daemon cleanly.
    """

    def __init__(self, name: str, run: Run) -> None:
        self._run = run
        self._asked_to_stop = threading.Event()
        self._state = START_PENDING
        self._handle = control_manager.register(name, self.control)

    def SvcRun(self) -> None:  # noqa: N802, pywin32 calls it so
        """Run the daemon. Raises RuntimeError if it failed: Windows starts it again."""
        self._report(START_PENDING, wait_ms=START_MS)
        exit_code = self._run(self._asked_to_stop, lambda _: self._report(RUNNING))
        if exit_code:
            raise RuntimeError(f"the daemon ended with {exit_code}")

    def control(self, control: int, _event_type: int, _data: Any) -> None:
        """Handle Windows' requests while the daemon runs."""
        if control in (STOP, SHUTDOWN, PRESHUTDOWN):
            self._report(STOP_PENDING, wait_ms=STOP_MS)
            self._asked_to_stop.set()
        elif control == INTERROGATE:
            self._report(self._state)

    def _report(self, state: int, *, wait_ms: int = 0) -> None:
        self._state = state
        accepted = ACCEPT_STOP | ACCEPT_PRESHUTDOWN if state == RUNNING else 0
        control_manager.report(self._handle, (OWN_PROCESS, state, accepted, 0, 0, 0, wait_ms))


def log_to(path: Path) -> None:
    """A service has no stderr: its output goes to a file, and the previous file is kept."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and path.stat().st_size > MOST_LOG_BYTES:
        path.replace(path.with_suffix(".1.log"))
    sys.stdout = sys.stderr = path.open("a", encoding="utf-8", buffering=1)
