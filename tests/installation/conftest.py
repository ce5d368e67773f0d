"""The wheel of this tree."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from installation_environment import ROOT


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps"]
    subprocess.run([*pip, "--no-build-isolation", "-w", folder, ROOT], check=True)
    (built,) = folder.glob("honed-*.whl")
    return built
