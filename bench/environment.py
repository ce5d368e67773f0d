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

    def python(self) -> Path:
        """Its interpreter."""
        if self.variable in os.environ:
            return Path(os.environ[self.variable])
        folder = ROOT / self.folder
        found = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
        stamp = folder / ".installed"
        wanted = "\n".join((*self.packages, *self.bare))
        if not stamp.exists() or stamp.read_text() != wanted:
            subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
            command = [str(found), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
            subprocess.run([*command, *self.packages], cwd=ROOT, check=True)
            if self.bare:
                subprocess.run([*command, "--no-deps", *self.bare], cwd=ROOT, check=True)
            stamp.write_text(wanted)
        return found
