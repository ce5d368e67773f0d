"""The machine that run.sh makes; without it there is nothing to test here."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from wine import Windows

ROOT = os.environ.get("HONE_WINDOWS", "")
if not ROOT:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def windows() -> Iterator[Windows]:
    """The machine; whatever runs on it ends with the tests."""
    machine = Windows(Path(ROOT))
    machine.run("cmd", "/c", "ver")
    yield machine
    machine.run("wineboot", "--kill")
