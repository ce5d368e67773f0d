"""Tests of Hone that run on Windows as they run on Linux, by pytest there."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys

import pytest
from sources import ROOT
from wine import ITSELF

TIMEOUT_S = 3000
"""The longest of them takes a quarter of an hour of both processors, which others may use too."""
LEAST_SHARE = 0.9
SEED, KILLS = 1, 30
ROOMS = r"PYTHONPATH=C:\honed\Lib\site-packages\honed"
SOURCES = "/prefix/drive_c/src"
CONSOLE = [
    f"tests/dashboard/{each}.py" for each in ("test_add", "test_classes", "samples/test_samples")
]
COUNTS = re.compile(r"(\d+) (passed|failed|skipped|errors?)\b")


@pytest.mark.parametrize(
    "folders", [["tests/service"], ["tests/storage"], ["tests/cli"]], ids=lambda each: each[0]
)
def test_every_test_passes_or_says_why_it_cannot_run_there(windows, folders):
    output = windows.run(
        *(ITSELF[0], "-m", "pytest", "-q", "-n", "3", "--dist", "loadfile"),
        *("--no-loadscope-reorder", "-p", "no:cacheprovider", "--tb=short", *folders),
        folder=SOURCES,
        variables=ROOMS,
        timeout_s=TIMEOUT_S,
    )
    counts = {what: int(count) for count, what in COUNTS.findall(output.splitlines()[-1])}
    sys.stdout.write(f"{folders}: {counts}\n")
    share = counts["passed"] / (counts["passed"] + counts["skipped"])
    assert share >= LEAST_SHARE or folders == ["tests/cli"], counts


def test_a_store_that_is_killed_at_any_moment_keeps_what_it_acknowledged(windows):
    shutil.rmtree(windows.drive / "soak", ignore_errors=True)
    helpers = r"C:\src\tests\helpers"
    output = windows.run(
        *(ITSELF[0], rf"{helpers}\soak\windows_lives.py", r"C:\soak", str(SEED), str(KILLS)),
        variables=rf"{ROOMS};{helpers};{helpers}\soak",
        timeout_s=TIMEOUT_S,
    )
    assert json.loads(output.splitlines()[-1])["kills"] == KILLS


def test_the_console_works_in_a_browser_of_this_side(windows):
    """The tests of the console, whose daemons run on Windows."""
    pytest.importorskip("playwright.sync_api", reason="needs EXTRAS=dev,browser and a Chromium")
    subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--basetemp", windows.drive / "tests", *CONSOLE],
        cwd=ROOT,
        env={**os.environ, "HONE_DAEMONS_IN": str(windows.root)},
        timeout=TIMEOUT_S,
        check=True,
    )
