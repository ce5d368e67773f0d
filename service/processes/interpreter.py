"""Starts our modules in a fresh interpreter. Nothing else does."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

APPLICATION = Path(__file__).resolve().parents[2]
"""The folder of our packages. `-m` searches the working folder first, so children start here:
nothing in the folder where the daemon was started, and no other package, can shadow our modules."""
DEFAULT_BUFFER_BYTES = 64 * 2**10
SECRET = frozenset({"HONED_TOKEN"})
"""Environment variables that no other process gets."""
CHANGES_IMPORTS = frozenset(
    {"PYTHONHOME", "PYTHONINSPECT", "PYTHONPATH", "PYTHONSAFEPATH", "PYTHONSTARTUP"}
)
"""Environment variables that change which code an interpreter runs."""
UTF8 = {"PYTHONUTF8": "1"}
"""What we write to a child and read from it, whatever the code page or the locale."""

WITHOUT_CONSOLE: int = getattr(subprocess, "CREATE_NO_WINDOW", 0)
"""On Windows a child has no part in our console: Ctrl-C there would end it before it has saved its
work, and a daemon without a console would open a window for each."""


def command(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module as `python -m` does; to be started in APPLICATION."""
    return [own_interpreter()[0], "-m", module, *arguments]


def environment() -> dict[str, str]:
    """The environment of a child: ours without secrets and without paths to other code."""
    variables = foreign_environment() | own_interpreter()[1] | UTF8
    return {name: value for name, value in variables.items() if name.upper() not in CHANGES_IMPORTS}


def own_interpreter() -> tuple[str, dict[str, str]]:
    """The program that runs as one process, and the variables that name our environment to it.

    On Windows python.exe of a virtual environment starts the real one as its child: limits of the
    process would miss it, and Windows does not accept it as a service. The variable is that of
    multiprocessing.
    """
    if sys.platform != "win32" or sys.prefix == sys.base_prefix:
        return sys.executable, {}
    real: str = sys._base_executable
    return real, {"__PYVENV_LAUNCHER__": sys.executable}


def foreign_environment() -> dict[str, str]:
    """The environment of a program that is not ours: this one without secrets."""
    return {name: value for name, value in os.environ.items() if name.upper() not in SECRET}


async def spawn(
    module: str, *arguments: str, buffer_bytes: int = DEFAULT_BUFFER_BYTES
) -> asyncio.subprocess.Process:
    """Start a module with pipes for its input, output and errors.

    Paths in the arguments and in messages to it must be absolute.
    buffer_bytes: the longest line that its output may hold. Raises OSError if the system refuses.
    """
    return await asyncio.create_subprocess_exec(
        *command(module, *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=APPLICATION,
        env=environment(),
        limit=buffer_bytes,
        creationflags=WITHOUT_CONSOLE,
    )


def start_silently(module: str, *arguments: str) -> subprocess.Popen[bytes]:
    """Start a module without input or output. Paths in the arguments must be absolute."""
    return subprocess.Popen(
        command(module, *arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=APPLICATION,
        env=environment(),
        creationflags=WITHOUT_CONSOLE,
    )
