from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import DEADLINE_S, Served


@pytest.fixture(scope="session")
def root() -> Path:
    """The repository."""
    return Path(__file__).parents[2]


@pytest.fixture
def run(root: Path) -> Callable[..., str]:
    """Runs a script of examples/ against a daemon, if it takes one; what it printed."""

    def started(
        script: str,
        *arguments: str | Path,
        served: Served | None = None,
        timeout_s: float = DEADLINE_S,
    ) -> str:
        daemon = {} if served is None else {"HONED_URL": served.url, "HONED_TOKEN": served.token}
        done = subprocess.run(
            [sys.executable, root / "examples" / script, *arguments],
            env=os.environ | daemon,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return started
