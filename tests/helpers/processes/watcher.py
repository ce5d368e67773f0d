"""The real `honed watch-input`, in a session of its own, of a person whose hands the test has."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from daemon_process import end
from support import DEADLINE_S

from service.processes.interpreter import WITHOUT_CONSOLE

PROGRAM = """
import sys, time
from pathlib import Path
from service.device.windows import last_input
hands = Path(sys.argv.pop())
last_input.seconds_since_input = lambda: max(0.0, time.time() - hands.stat().st_mtime)
from cli.main import main
main()
"""


class Watcher:
    """A helper and its person. session: its id, as the kernel tells it of the process."""

    def __init__(self, folder: Path, url: str, *, idle_s: float) -> None:
        folder.mkdir()
        self._hands = folder / "hands"
        self._log = folder / "stderr"
        self.touch(ago_s=idle_s)
        with self._log.open("wb") as stderr:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PROGRAM, "--url", url, "watch-input", str(self._hands)],
                stdin=subprocess.DEVNULL,
                stderr=stderr,
                start_new_session=True,
                creationflags=WITHOUT_CONSOLE,
            )
        self.session = self.process.pid

    def touch(self, *, ago_s: float = 0.0) -> None:
        """A key is pressed, or was some time ago."""
        self._hands.touch()
        at_s = time.time() - ago_s
        os.utime(self._hands, (at_s, at_s))

    def said(self) -> list[str]:
        """Lines on stderr so far."""
        return self._log.read_text(encoding="utf-8").splitlines()

    def stop(self) -> int:
        """Tell it to end; its exit code."""
        if self.process.poll() is None:
            end(self.process, signal.SIGTERM)
        return self.process.wait(DEADLINE_S)
