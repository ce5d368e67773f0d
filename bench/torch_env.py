"""PyTorch, installed for the comparison alone, in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent.parent / ".venv-bench"
PACKAGES = ("torch==2.13.0", "onnx>=1.21,<1.24", "numpy>=1.26,<3")
VARIABLE = "BENCH_TORCH_PYTHON"


def python() -> Path:
    """The interpreter of the environment, which is made when it is first asked for.

    $BENCH_TORCH_PYTHON names another that has torch, onnx and numpy.
    """
    if VARIABLE in os.environ:
        return Path(os.environ[VARIABLE])
    found = FOLDER / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    stamp = FOLDER / ".installed"
    if not stamp.exists() or stamp.read_text() != "\n".join(PACKAGES):
        subprocess.run([sys.executable, "-m", "venv", str(FOLDER)], check=True)
        command = [str(found), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*command, *PACKAGES], check=True)
        stamp.write_text("\n".join(PACKAGES))
    return found
