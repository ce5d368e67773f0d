"""What a program frees goes back to the system, though living blocks lie between."""

from __future__ import annotations

import platform
import subprocess
import sys

import pytest
from support import DEADLINE_S

from service.processes.interpreter import APPLICATION

pytestmark = pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="other C libraries have no such knobs"
)
MEASURED = """
import sys
from pathlib import Path
from service import allocator

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4

size, every, how = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
if how == "at once":
    allocator.return_freed_memory()
before = resident()
blocks = [b"x" * size for _ in range(64 * 2**20 // size)]
full = resident()
blocks = [each for at, each in enumerate(blocks) if at % every == 0]
if how == "trimmed":
    allocator.trim()
print((full - before) // 1024, (resident() - before) // 1024)
"""


def megabytes(size: int, *, every: int, how: str) -> tuple[int, int]:
    """What 64 MiB of blocks take, and what is left of it when all but some were freed."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURED, str(size), str(every), how],
        capture_output=True,
        text=True,
        check=True,
        cwd=APPLICATION,
        timeout=DEADLINE_S,
    )
    full, kept = done.stdout.split()
    return int(full), int(kept)


def test_large_buffers_go_back_as_they_are_freed() -> None:
    full, kept = megabytes(100_000, every=10, how="at once")
    assert full > 60
    assert kept < 16
    assert megabytes(100_000, every=10, how="neither")[1] > 16


def test_holes_between_small_blocks_go_back_after_work() -> None:
    full, kept = megabytes(2000, every=100, how="trimmed")
    assert full > 60
    assert kept < 16
    assert megabytes(2000, every=100, how="neither")[1] > 40
