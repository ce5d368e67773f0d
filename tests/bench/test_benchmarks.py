"""Every benchmark runs, at its smallest size; none has figures of a part that failed."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from programs import finished

from bench.__main__ import FOLDERS, module_of, shown
from bench.daemon import served
from bench.device import politeness
from bench.environment import Environment
from bench.needs import needs
from bench.table import Row

ROOT = Path(__file__).parents[2]
LISTED = re.compile(r"^\| (.+) \| (.+) \|$", re.M)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_benchmark_runs_at_its_smallest_size(name: str, tmp_path: Path) -> None:
    bench, figures = module_of(name), tmp_path / "figures.json"
    assert vars(bench).keys() >= bench.SMALLEST.keys()
    needed = needs(bench)
    if any(isinstance(need, Environment) for need in needed):
        pytest.skip(f"{name} compares with other frameworks, for minutes: make test-bench runs it")
    missing = [need.what for need in needed if not need.is_met()]
    if missing:
        pytest.skip(f"{name} needs {'; '.join(missing)}")
    command = (sys.executable, "-m", "bench", "--smallest", name, "--json", str(figures))
    done = finished(*command, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(figures.read_text("utf-8"))[name]


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


@pytest.mark.skipif(sys.platform != "linux", reason="it stops and continues processes")
def test_a_loop_that_dies_fails_the_benchmark(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in politeness.SMALLEST.items():
        monkeypatch.setattr(politeness, name, value)
    monkeypatch.setattr(politeness, "BARE_LOOP", "raise SystemExit(7)")
    with pytest.raises(AssertionError, match="the bare loop has ended: exit code 7"):
        politeness.run()


def test_the_rows_before_a_part_that_fails_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    bench = ModuleType("bench")

    def run() -> Iterator[Row]:
        yield {"row": "first"}
        raise SystemExit("the second failed")

    bench.run = run  # type: ignore[attr-defined]
    with pytest.raises(SystemExit, match="the second failed"):
        shown("a benchmark", bench)
    assert capsys.readouterr().out.split() == ["a", "benchmark", "row", "first"]


def test_a_request_that_is_refused_fails_the_benchmark() -> None:
    refused = pytest.raises(AssertionError, match=r"GET .+/v1/models/other: .+not_found")
    with served() as daemon, refused:
        daemon.http.get("/v1/models/other")
