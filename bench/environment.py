"""Environments of what is installed for a comparison alone, made when they are first asked for."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Environment:
    """packages: as pip's arguments; bare: those installed without what they need. variable: names
    an interpreter elsewhere that has them.
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

    def python(self) -> Path:
        """Its interpreter."""
        if self.variable in os.environ:
            return Path(os.environ[self.variable])
        folder = ROOT / self.folder
        python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        if not self.is_met():
            print(f"installs {' '.join((*self.packages, *self.bare))} into {folder}", flush=True)
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            command = [str(python), "-m", "pip", "install", "--quiet"]
            command.append("--disable-pip-version-check")
            subprocess.run([*command, *self.packages], cwd=ROOT, check=True)
            if self.bare:
                subprocess.run([*command, "--no-deps", *self.bare], cwd=ROOT, check=True)
            self._stamp.write_text(self._wanted)
        return python

    @property
    def _stamp(self) -> Path:
        return ROOT / self.folder / ".installed"

    @property
    def _wanted(self) -> str:
        return "\n".join((*self.packages, *self.bare))
