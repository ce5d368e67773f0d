"""Memory and processors: the limits for this process and its children, and what is free now."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from service.device.linux.cgroups import groups, memory_limits, processor_quota
from service.device.linux.files import read_bytes, read_int, reason
from service.device.reading import Moment, Reading

NAME = "available_memory_bytes"


def usable_memory_bytes(*, procfs: Path = Path("/proc"), sysfs: Path = Path("/sys")) -> int | None:
    """The machine's memory or the limit of a cgroup around this process, whichever is less.

    None if neither can be read.
    """
    if sys.platform != "linux":
        import psutil

        return int(psutil.virtual_memory().total)
    around = groups("memory", procfs=procfs, sysfs=sysfs)
    sizes = [limit for group in around for limit in memory_limits(group)]
    with suppress(OSError, ValueError, KeyError):
        sizes.append(_figures(procfs / "meminfo")[b"MemTotal"])
    return min(sizes, default=None)


def usable_processors(*, procfs: Path = Path("/proc"), sysfs: Path = Path("/sys")) -> int:
    """Those that this process may run on, or that a cgroup around it may fill, if fewer."""
    if sys.platform != "linux":
        return os.cpu_count() or 1
    quotas = filter(None, map(processor_quota, groups("cpu", procfs=procfs, sysfs=sysfs)))
    return min([len(os.sched_getaffinity(0)), *quotas])


def default_threads() -> int:
    """Half of the processors; the other half is left to other programs."""
    return max(1, usable_processors() // 2)


def _figures(path: Path) -> dict[bytes, int]:
    """Bytes by name, of lines such as `MemTotal: 8388608 kB` or `inactive_file 4096`.

    Raises OSError, ValueError.
    """
    lines = [line.split() for line in read_bytes(str(path)).splitlines()]
    return {name.rstrip(b":"): int(value) * (1024 if unit else 1) for name, value, *unit in lines}


class LinuxMemory:
    """/proc/meminfo, or what a cgroup around this process has left if that is less."""

    def __init__(self, procfs: Path, sysfs: Path) -> None:
        self._path = procfs / "meminfo"
        self._groups = groups("memory", procfs=procfs, sysfs=sysfs)

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """available_memory_bytes."""
        available, source, detail = None, self._path, "the kernel tells no MemAvailable"
        try:
            available = _figures(self._path).get(b"MemAvailable")
        except (OSError, ValueError) as error:
            detail = reason(error, str(self._path))
        for group in self._groups:
            left = _left_in(group)
            if left is not None and (available is None or left < available):
                available, source = left, group
        known = available is not None
        return (Reading(NAME, available, "B", str(source), now, "" if known else detail),)


def _left_in(group: Path) -> int | None:
    """Bytes that a group may still take; its files in memory count as free, as in MemAvailable."""
    limits = memory_limits(group)
    used = read_int(f"{group}/memory.current") or read_int(f"{group}/memory.usage_in_bytes")
    if not limits or used is None:
        return None
    with suppress(OSError, ValueError):
        figures = _figures(group / "memory.stat")
        for kind in (b"inactive_file", b"active_file"):
            # In the first version of cgroups only the total has those of the groups inside.
            used -= figures.get(b"total_" + kind, figures.get(kind, 0))
    return max(0, min(limits) - used)
