"""Programs that tests run to their end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from support import DEADLINE_S

INTERPRETERS = [
    sys.executable,
    *filter(None, os.environ.get("EXPORT_PYTHONS", "").split(os.pathsep)),
]
"""$EXPORT_PYTHONS names interpreters of environments that have what ours has not."""


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


def interpreter(needed: str) -> str:
    """One that has these modules; skips the test if there is none."""
    program = "import importlib.util as u, sys; sys.exit(not all(map(u.find_spec, sys.argv[1:])))"
    for path in INTERPRETERS:
        if finished(path, "-c", program, *needed.split()).returncode == 0:
            return path
    pytest.skip(f"no interpreter has {needed}; name one in EXPORT_PYTHONS")
