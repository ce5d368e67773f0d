"""The machine that run.sh makes; without it there is nothing to test here."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import Served
from wine import PYTHON, Windows

HERE = Path(__file__).parent
ROOT = os.environ.get("HONE_WINDOWS", "")
if not ROOT:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def windows() -> Iterator[Windows]:
    """The machine; whatever runs on it ends with the tests."""
    machine = Windows(Path(ROOT))
    # Wine shuts down, services too, with the last program that is none.
    code = "import time; print('on', flush=True); time.sleep(86400)"
    awake = machine.start(PYTHON, "-c", code, stdout=subprocess.PIPE)
    assert awake.stdout is not None
    assert awake.stdout.readline() == b"on\r\n"
    yield machine
    awake.kill()
    awake.communicate()
    machine.run("wineboot", "--kill")


@pytest.fixture
def folder(windows):
    """A folder of the test on C:, in whose name is what paths of people have."""
    folder = windows.drive / "Größe & Maß, 日本"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder


@pytest.fixture
def serve_there(windows, folder, database):
    """Start daemons on the data folder of the test."""
    started = []

    def start(name="data", **settings):
        served = Served(folder / name, database=database, start=windows.start_daemon, **settings)
        started.append(served)
        return served

    yield start
    for served in started:
        if served.process.poll() is None:
            served.stop(signal.SIGKILL)
