"""The dashboard's tools, installed in a copy of its sources."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from sources import ROOT

NPM = shutil.which("npm")
INSTALL_S = 120


class Npm:
    """Runs npm in a copy of dashboard/ in which the pinned tools are installed."""

    def __init__(self, folder: Path) -> None:
        if NPM is None:
            pytest.skip("there is no npm on this machine")
        self.folder = folder / "dashboard"
        ignored = shutil.ignore_patterns("node_modules")
        shutil.copytree(ROOT / "dashboard", self.folder, ignore=ignored)
        try:
            installed = self("ci")
        except subprocess.TimeoutExpired:
            pytest.skip(f"npm did not install within {INSTALL_S} s")
        if installed.returncode:
            pytest.skip(f"npm cannot install: {installed.stderr.strip()[-300:]}")

    def __call__(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run it."""
        return subprocess.run(
            [str(NPM), *arguments],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            check=False,
        )
