"""`honed serve` as a program that does not come up."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support import DEADLINE_S


@pytest.fixture
def honed_serve(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Its exit code and what it said, with these settings."""

    def run(**settings: object) -> tuple[int, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HONED_")}
        chosen = {f"HONED_{name.upper()}": str(value) for name, value in settings.items()}
        done = subprocess.run(
            [sys.executable, "-m", "cli", "serve", "--port", "0"],
            env={
                **kept,
                "HONED_CONFIG": os.devnull,
                "HONED_DATA_DIR": str(tmp_path / "data"),
                **chosen,
            },
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
            check=False,
        )
        return done.returncode, done.stderr

    return run
