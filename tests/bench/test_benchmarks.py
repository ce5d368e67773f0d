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
from daemon_process import start_daemon
from programs import finished

from bench import daemon
from bench.__main__ import FOLDERS, module_of, shown
from bench.device import day, politeness
from bench.needs import Environment, needs
from bench.table import Row

ROOT = Path(__file__).parents[2]
LISTED = re.compile(r"^\| (.+) \| (.+) \|$", re.M)


def make_smallest(bench: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    """Give it the constants of its shortest run, and daemons that are forked as other tests' are.

    Not where it has the daemon's interpreter name its threads.
    """
    if bench is not day:
        monkeypatch.setattr(daemon, "start_program", start_daemon)
    for name, value in bench.SMALLEST.items():
        monkeypatch.setattr(bench, name, value)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_benchmark_runs_at_its_smallest_size(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    bench = module_of(name)
    make_smallest(bench, monkeypatch)
    needed = needs(bench)
    if any(isinstance(need, Environment) for need in needed):
        pytest.skip(f"{name} compares with other frameworks, for minutes: make test-bench runs it")
    missing = [need.what for need in needed if not need.is_met()]
    if missing:
        pytest.skip(f"{name} needs {'; '.join(missing)}")
    rows = shown(name, bench)
    assert rows
    assert json.loads(json.dumps(rows)) == rows


def test_the_program_keeps_the_figures_of_what_it_has_run(tmp_path: Path) -> None:
    figures = tmp_path / "figures.json"
    command = (sys.executable, "-m", "bench", "--smallest", "tokens", "--json", str(figures))
    done = finished(*command, cwd=ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    assert json.loads(figures.read_text("utf-8"))["tokens"]


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
    make_smallest(politeness, monkeypatch)
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
    with daemon.served() as running, refused:
        running.http.get("/v1/models/other")
