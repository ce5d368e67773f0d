"""The dashboard's tools, installed in a copy of its sources."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from sources import ROOT
from support import wait_until

NPM = shutil.which("npm")
INSTALL_S = 120


class Npm:
    """Runs npm in a copy of dashboard/ in which the pinned tools are installed.

    The first process that is given a folder, which must not exist, installs for all others.
    """

    def __init__(self, folder: Path) -> None:
        if NPM is None:
            pytest.skip("there is no npm on this machine")
        self.folder = folder / "dashboard"
        told = folder / "told"
        try:
            folder.mkdir()
        except FileExistsError:
            wait_until(told.exists, "another process to install")
        else:
            (folder / "new").write_text(self._install(), "utf-8")
            (folder / "new").rename(told)
        if problem := told.read_text("utf-8"):
            pytest.skip(problem)

    def _install(self) -> str:
        """What keeps npm from it, empty if nothing does."""
        ignored = shutil.ignore_patterns("node_modules")
        shutil.copytree(ROOT / "dashboard", self.folder, ignore=ignored)
        try:
            installed = self("ci")
        except subprocess.TimeoutExpired:
            return f"npm did not install within {INSTALL_S} s"
        return f"npm cannot install: {installed.stderr[-300:]}" if installed.returncode else ""

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
