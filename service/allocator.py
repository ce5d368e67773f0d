"""Keeps the resting daemon small: glibc's malloc gives memory back to the system.

By default every thread gets an arena of its own, freed buffers raise the threshold under which
memory is kept, and holes between living blocks stay resident (mallopt(3), malloc_trim(3)). A
daemon that rests most of the day wants none of it. Other C libraries have no such knobs.
"""

from __future__ import annotations

import ctypes
import sys
from functools import cache

M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3
M_ARENA_MAX = -8
KEPT_BYTES = 64 * 1024


def return_freed_memory() -> None:
    """One arena from now on, and every buffer past KEPT_BYTES goes back when it is freed."""
    libc = _glibc()
    if libc is not None:
        libc.mallopt(M_ARENA_MAX, 1)
        libc.mallopt(M_TRIM_THRESHOLD, KEPT_BYTES)
        libc.mallopt(M_MMAP_THRESHOLD, KEPT_BYTES)


def trim() -> None:
    """Give back the holes, too: after work that took much memory, a millisecond well spent."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "malloc_trim") else None
