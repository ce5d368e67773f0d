"""`honed serve` as a program that does not come up."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from daemon_process import start_daemon
from support import DEADLINE_S


@pytest.fixture
def honed_serve(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Its exit code and what it said, with these settings."""

    def run(**settings: object) -> tuple[int, str]:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("HONED_")}
        chosen = {f"HONED_{name.upper()}": str(value) for name, value in settings.items()}
        data_dir = str(tmp_path / "data")
        environment = {**kept, "HONED_CONFIG": os.devnull, "HONED_DATA_DIR": data_dir, **chosen}
        log = tmp_path / "refused.log"
        log.write_text("")
        process = start_daemon(["serve", "--port", "0"], environment, log)
        return process.wait(DEADLINE_S), log.read_text()

    return run
