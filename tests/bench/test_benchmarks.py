"""What benchmarks need."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

from programs import finished

from bench.__main__ import FOLDERS, module_of
from bench.needs import needs

ROOT = Path(__file__).parents[2]
LISTED = re.compile(r"^\| (.+) \| (.+) \|$", re.M)


def test_a_benchmark_says_before_it_starts_what_is_missing() -> None:
    command = (sys.executable, "-m", "bench", "footprint", "delivery")
    done = finished(*command, cwd=ROOT, PATH=os.devnull)
    assert done.returncode == 1
    assert done.stdout == ""
    assert done.stderr.splitlines() == [
        "delivery needs nginx: `apt install nginx-light`",
        "delivery needs wrk: `apt install wrk`",
        "delivery needs curl: `apt install curl`",
    ]


def test_contributing_lists_what_each_benchmark_needs() -> None:
    needed: dict[str, list[str]] = {}
    for name in FOLDERS:
        for need in needs(module_of(name)):
            needed.setdefault(need.what, []).append(f"`{name}`")
    page = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    listed = {what: names.split(", ") for what, names in LISTED.findall(page)}
    assert listed == {"needed": ["by"], **needed}
