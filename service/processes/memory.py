"""Memory of the child processes: one cap for all, divided among the living ones."""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from pathlib import Path

from service.logs import event
from storage.errors import in_words

logger = logging.getLogger(__name__)

MIN_SHARE_BYTES = 128 * 2**20
"""Minimum share of a child: interpreter, numpy and engine map 77 MiB before loading a model."""


def shares(used: Mapping[int, int], cap_bytes: int) -> dict[int, int]:
    """The limit of each process: what it uses, and an equal part of what is free.

    used: process id → bytes. The shares add up to cap_bytes, so that the cap holds whichever
    process grows; only minimum shares may exceed it.
    """
    free_bytes = max(0, cap_bytes - sum(used.values()))
    part = free_bytes // max(1, len(used))
    return {pid: max(MIN_SHARE_BYTES, taken + part) for pid, taken in used.items()}


class SharedMemoryCap:
    """Adjusts RLIMIT_DATA of living processes so that together they stay within the cap.

    RLIMIT_DATA counts private memory (Linux ≥ 4.7); files mapped read-only, such as packs, do not
    count. On Windows they share a job object, which has such a limit of its own, and which ends
    them with this process. macOS has neither, and nothing is enforced there.
    """

    def __init__(self, cap_bytes: int | None) -> None:
        self._cap_bytes = cap_bytes
        self._pids: set[int] = set()
        self._job = None
        if sys.platform == "win32":
            from service.processes.windows_job import WindowsJob

            self._job = WindowsJob()

    def change(self, cap_bytes: int | None) -> None:
        """Change the cap, None for no limit; it applies to living processes at once."""
        if cap_bytes != self._cap_bytes:
            self._cap_bytes = cap_bytes
            self._share_out()

    def add(self, pid: int) -> None:
        """A process has started."""
        self._pids.add(pid)
        if self._job is not None:
            self._job.add(pid)
        self._share_out()

    def remove(self, pid: int) -> None:
        """A process has ended: the others may use its memory."""
        self._pids.discard(pid)
        self._share_out()

    @property
    def free_bytes(self) -> int | None:
        """Memory that no process uses yet, None without a cap."""
        if self._cap_bytes is None:
            return None
        return max(0, self._cap_bytes - sum(self._used().values()))

    def _share_out(self) -> None:
        if self._job is not None:
            least_bytes = MIN_SHARE_BYTES * len(self._pids)
            self._job.limit(self._cap_bytes and max(self._cap_bytes, least_bytes))
        if sys.platform != "linux":
            return
        used = self._used()
        limits = dict.fromkeys(used) if self._cap_bytes is None else shares(used, self._cap_bytes)
        for pid, limit_bytes in limits.items():
            _limit_data(pid, limit_bytes)

    def _used(self) -> dict[int, int]:
        return {pid: taken for pid in self._pids if (taken := _private_bytes(pid)) is not None}


def _limit_data(pid: int, limit_bytes: int | None) -> None:
    """Set the soft limit: the kernel refuses what exceeds it from now on."""
    import resource

    try:
        _, hard = resource.prlimit(pid, resource.RLIMIT_DATA)
        soft = hard if limit_bytes is None else limit_bytes
        if hard != resource.RLIM_INFINITY:
            soft = min(soft, hard)
        resource.prlimit(pid, resource.RLIMIT_DATA, (soft, hard))
    except ProcessLookupError:
        return  # it has just ended
    except OSError as error:
        event(logger, logging.WARNING, "child.memory_not_limited", pid=pid, detail=in_words(error))


def _private_bytes(pid: int) -> int | None:
    """The memory of a process that RLIMIT_DATA counts, None once it has ended."""
    try:
        status = Path(f"/proc/{pid}/status").read_text("ascii", "replace")
    except OSError:
        return None
    for line in status.splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return None  # a zombie has no memory
