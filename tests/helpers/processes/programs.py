"""Programs that tests run to their end."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from support import DEADLINE_S


def printed(*command: str, cwd: Path | None = None, **environment: str) -> str:
    """What it wrote to standard output. Fails the test if it fails."""
    done = finished(*command, cwd=cwd, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def finished(
    *command: str, cwd: Path | None = None, **environment: str
) -> subprocess.CompletedProcess[str]:
    """How it ended, with these variables beside our own."""
    return subprocess.run(
        command,
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
