"""Runs the benchmarks named on the command line, or all of them, and writes bench/results.json."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
from pathlib import Path

from bench.table import show

NAMES = ("throughput", "footprint", "upload", "scale")


def main() -> None:
    """Run, print a table for each, keep the figures as JSON."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--json", type=Path, help="write the figures to this file, too")
    chosen = parser.parse_args()
    results = {}
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    for name in chosen.names or NAMES:
        rows = importlib.import_module(f"bench.{name}").run()
        show(name, rows)
        results[name] = rows
    if chosen.json:
        chosen.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
