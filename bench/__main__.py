"""Runs the benchmarks named on the command line, or all of them; `make bench` keeps the figures.

A part of a benchmark that fails fails the benchmark, which ends the run.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import json
import os
import platform
from datetime import date
from pathlib import Path
from types import ModuleType
from typing import Any

from bench.needs import ROOT, prepare
from bench.table import Row, show

FOLDERS = {
    path.stem: path.parent.name
    for path in sorted((ROOT / "bench").glob("*/*.py"))
    if "\nSMALLEST = " in path.read_text("utf-8")
}
"""Of the benchmarks, by name: the modules that say what is their shortest run."""
BY_NAME_ONLY = ("architectures", "delivery", "console", "day")
"""They take hours, need programs that few have, or take 24 minutes."""
WITH_ROWS = ("architectures",)


def main() -> None:
    """Run, print a table for each, keep the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(FOLDERS)}")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    parser.add_argument("--rows", nargs="+", default=[], help=f"only these, of {WITH_ROWS[0]}")
    parser.add_argument(
        "--smallest", action="store_true", help="as little work as shows that it runs; no figures"
    )
    chosen = parser.parse_args()
    if chosen.rows and tuple(chosen.names) != WITH_ROWS:
        parser.error(f"--rows is for {WITH_ROWS[0]} alone")
    for name in chosen.names:
        if name not in FOLDERS:
            parser.error(f'no benchmark is named "{name}"')
    usual = [name for name in FOLDERS if chosen.smallest or name not in BY_NAME_ONLY]
    benches = {name: module_of(name) for name in chosen.names or usual}
    prepare(benches)
    compile_program()
    results: dict[str, Any] = {
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "load": f"{os.getloadavg()[0]:.1f} at the start",
        "date": date.today().isoformat(),
    }
    print(f"{results['machine']}, load {results['load']}")
    for name, bench in benches.items():
        if chosen.rows:
            bench.ROWS = chosen.rows  # type: ignore[attr-defined]
        if chosen.smallest:
            vars(bench).update(bench.SMALLEST)
        results[name] = shown(name, bench)
        if chosen.json:
            chosen.json.write_text(json.dumps(results, indent=2) + "\n")


def compile_program() -> None:
    """Keep the program's modules compiled, as an installation does.

    A child cannot keep those that it loads in its sandbox: in a fresh checkout each job compiled
    them, which took 75 ms of a processor.
    """
    for folder in ("api", "cli", "service", "storage"):
        compileall.compile_dir(ROOT / folder, quiet=1)


def module_of(name: str) -> ModuleType:
    """The module of a benchmark: `run` yields its rows, `SMALLEST` are constants of a short run."""
    return importlib.import_module(f"bench.{FOLDERS[name]}.{name}")


def shown(name: str, bench: ModuleType) -> list[Row]:
    """The rows of a run, which are printed if it fails on the way, too."""
    rows: list[Row] = []
    try:
        rows.extend(bench.run())
    finally:
        if rows:
            show(name, rows)
    return rows


if __name__ == "__main__":
    main()
