"""Processes of the example, and waiting for what they come to."""

from __future__ import annotations

import os
import socket
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

DEADLINE_S = 900.0
"""Of every wait: on a busy machine nothing fails for it."""


def wait_for(condition: Callable[[], Any], what: str) -> Any:
    """Ask until the answer is true."""
    until = time.monotonic() + DEADLINE_S
    while not (answer := condition()):
        if time.monotonic() > until:
            raise TimeoutError(f"waited {DEADLINE_S:g} s for {what}")
        time.sleep(0.1)
    return answer


def free_port() -> int:
    """One that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


class Program:
    """A process whose output goes to a file."""

    def __init__(self, command: list[str], log: Path, **variables: str) -> None:
        self.log = log
        kept = {k: v for k, v in os.environ.items() if not k.startswith(("HONED_", "FLWR_"))}
        with log.open("ab") as output:
            self.process = subprocess.Popen(
                command,
                env={**kept, **variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def said(self) -> str:
        """All that it has written."""
        return self.log.read_text("utf-8", errors="replace")

    def stop(self) -> None:
        """End it in order."""
        self.process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        self.kill()

    def kill(self) -> None:
        """End it and what it started as a power cut would."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, 9)
        self.process.wait()
