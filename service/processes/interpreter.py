"""Starting a module of ours in a fresh interpreter: the one place that knows how."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

DEFAULT_BUFFER_BYTES = 64 * 2**10
KEPT_FROM_CHILDREN = frozenset({"HONED_TOKEN"})
"""Environment variables that no child process gets."""


def command(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module as `python -m` does."""
    return [sys.executable, "-m", module, *arguments]


def environment() -> dict[str, str]:
    """The daemon's own environment, but for what is kept from children."""
    return {name: value for name, value in os.environ.items() if name not in KEPT_FROM_CHILDREN}


async def spawn(
    module: str,
    *arguments: str,
    work_dir: Path | None = None,
    buffer_bytes: int = DEFAULT_BUFFER_BYTES,
) -> asyncio.subprocess.Process:
    """Start a module with pipes for its input, output and errors.

    buffer_bytes: the longest line that its output may hold. Raises OSError if the system refuses.
    """
    return await asyncio.create_subprocess_exec(
        *command(module, *arguments),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=work_dir,
        env=environment(),
        limit=buffer_bytes,
    )
