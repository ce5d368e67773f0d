"""What benchmarks need besides the tests' environment. CONTRIBUTING.md lists it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from bench.daemon import CHROMIUM

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Need:
    """what: with the way to get it. is_met: whether this machine has it."""

    what: str
    is_met: Callable[[], bool]


def program(name: str, *, package: str) -> Need:
    """package: Debian's."""
    return Need(f"{name}: `apt install {package}`", lambda: shutil.which(name) is not None)


@dataclass(frozen=True)
class Environment:
    """What is installed for a comparison alone, when it is first asked for.

    packages: as pip's arguments; bare: those installed without what they need. variable: names an
    interpreter elsewhere that has them.
    """

    folder: str
    variable: str
    packages: tuple[str, ...]
    bare: tuple[str, ...] = ()

    @property
    def what(self) -> str:
        """What is in it, and how it comes there."""
        place = f"installed into `{self.folder}` at the first run"
        names = ", ".join((self.packages[0], *self.bare))
        return f"{names}: {place}, or `{self.variable}=PYTHON` of one that has it"

    def is_met(self) -> bool:
        """Whether nothing is to be installed."""
        return self.variable in os.environ or (
            self._stamp.exists() and self._stamp.read_text() == self._wanted
        )

    def command(self, *arguments: object) -> list[str]:
        """Its interpreter, without warnings, with these arguments."""
        return [str(self.python()), "-W", "ignore", *map(str, arguments)]

    def python(self) -> Path:
        """Its interpreter."""
        if self.variable in os.environ:
            return Path(os.environ[self.variable])
        folder = ROOT / self.folder
        python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        if not self.is_met():
            print(f"installs {' '.join((*self.packages, *self.bare))} into {folder}", flush=True)
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            install = [str(python), "-m", "pip", "install", "--quiet"]
            install.append("--disable-pip-version-check")
            subprocess.run([*install, *self.packages], cwd=ROOT, check=True)
            if self.bare:
                subprocess.run([*install, "--no-deps", *self.bare], cwd=ROOT, check=True)
            self._stamp.write_text(self._wanted)
        return python

    @property
    def _stamp(self) -> Path:
        return ROOT / self.folder / ".installed"

    @property
    def _wanted(self) -> str:
        return "\n".join((*self.packages, *self.bare))


LINUX = Need("Linux", lambda: sys.platform == "linux")
CURL = program("curl", package="curl")
NGINX = program("nginx", package="nginx-light")
WRK = program("wrk", package="wrk")
BROWSER = Need("Chromium: `apt install chromium-headless-shell`", lambda: CHROMIUM is not None)
PLAYWRIGHT = Need(
    "Playwright: `make EXTRAS=dev,browser .venv/.installed`",
    lambda: importlib.util.find_spec("playwright") is not None,
)
TORCH = Environment(
    folder=".venv-bench",
    variable="BENCH_TORCH_PYTHON",
    packages=("torch==2.13.0", "onnx>=1.21,<1.24", "numpy>=1.26,<3"),
)
ZOO = Environment(
    folder=".venv-architectures",
    variable="BENCH_ZOO_PYTHON",
    packages=("torch==2.13.0", "-r", "tests/zoo/requirements.txt"),
    bare=("timm==1.0.31", "torchvision==0.28.0"),
)
"""With the libraries whose networks are trained; that of `make zoo` has the same."""


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
