"""What benchmarks need besides the tests' environment. CONTRIBUTING.md lists it."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import ModuleType

from bench.daemon import CHROMIUM
from bench.environment import Environment


@dataclass(frozen=True)
class Need:
    """what: with the way to get it. is_met: whether this machine has it."""

    what: str
    is_met: Callable[[], bool]


def program(name: str, *, package: str) -> Need:
    """package: Debian's."""
    return Need(f"{name}: `apt install {package}`", lambda: shutil.which(name) is not None)


LINUX = Need("Linux", lambda: sys.platform == "linux")
CURL = program("curl", package="curl")
NGINX = program("nginx", package="nginx-light")
WRK = program("wrk", package="wrk")
BROWSER = Need("Chromium: `apt install chromium-headless-shell`", lambda: CHROMIUM is not None)
PLAYWRIGHT = Need(
    "Playwright: `make EXTRAS=dev,browser .venv/.installed`",
    lambda: importlib.util.find_spec("playwright") is not None,
)


def needs(bench: ModuleType) -> tuple[Need | Environment, ...]:
    """What a benchmark needs: its `NEEDS`, if it has any."""
    return getattr(bench, "NEEDS", ())


def prepare(benches: Mapping[str, ModuleType]) -> None:
    """Make what environments are missing. Exits, saying what else is missing for which of them."""
    wanted = [(name, need) for name, bench in benches.items() for need in needs(bench)]
    missing = [
        f"{name} needs {need.what}"
        for name, need in wanted
        if isinstance(need, Need) and not need.is_met()
    ]
    if missing:
        raise SystemExit("\n".join(missing))
    for _, need in wanted:
        if isinstance(need, Environment):
            need.python()
