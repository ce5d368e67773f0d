"""The machine that run.sh makes; without it there is nothing to test here."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from wine import PYTHON, Windows

HERE = Path(__file__).parent
ROOT = os.environ.get("HONE_WINDOWS", "")
if not ROOT:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def windows() -> Iterator[Windows]:
    """The machine; whatever runs on it ends with the tests."""
    machine = Windows(Path(ROOT))
    shutil.copy(HERE / "wine_service.py", machine.folder)
    shutil.rmtree(machine.drive / "ProgramData/Hone", ignore_errors=True)
    # Wine shuts down, services too, with the last program that is none.
    code = "import time; print('on', flush=True); time.sleep(86400)"
    awake = machine.start(PYTHON, "-c", code, stdout=subprocess.PIPE)
    assert awake.stdout is not None
    assert awake.stdout.readline() == b"on\r\n"
    yield machine
    awake.kill()
    awake.communicate()
    machine.run("wineboot", "--kill")
