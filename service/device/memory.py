"""Memory: the limit for this process and its children, and how much is free now."""

from __future__ import annotations

import sys
from contextlib import suppress
from pathlib import Path, PurePosixPath

from service.device.linux.files import read_attribute, read_bytes, read_int, reason
from service.device.reading import Moment, Reading

NAME = "available_memory_bytes"


def usable_memory_bytes(*, procfs: Path = Path("/proc"), sysfs: Path = Path("/sys")) -> int | None:
    """The machine's memory or the limit of a cgroup around this process, whichever is less.

    None if neither can be read.
    """
    if sys.platform != "linux":
        import psutil

        return int(psutil.virtual_memory().total)
    sizes: list[int | None] = [*_cgroup_limits(procfs, sysfs)]
    with suppress(OSError, ValueError):
        sizes.append(meminfo_bytes(procfs / "meminfo", b"MemTotal"))
    return min((size for size in sizes if size is not None), default=None)


def _cgroup_limits(procfs: Path, sysfs: Path) -> list[int]:
    """The limits of the process's own group and all its parents; `max` means no limit.

    A container may show the path of the host here and mount its own group at the root.
    Source: cgroups(7), "/proc/pid/cgroup"; the kernel's cgroup-v2.rst, "memory.max".
    """
    limits: list[int] = []
    for line in (read_attribute(str(procfs / "self" / "cgroup")) or "").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers == "":
            root, name = sysfs / "fs" / "cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            root, name = sysfs / "fs" / "cgroup" / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = PurePosixPath(path.lstrip("/"))
        for around in (group, *group.parents):
            limit = read_int(str(root / around / name))
            if limit is not None:
                limits.append(limit)
    return limits


def meminfo_bytes(path: Path, wanted: bytes) -> int | None:
    """A figure of /proc/meminfo, None if it has no such line. Raises OSError, ValueError."""
    for line in read_bytes(str(path)).splitlines():
        name, _, value = line.partition(b":")
        if name == wanted:
            return int(value.removesuffix(b"kB")) * 1024
    return None


class LinuxMemory:
    """/proc/meminfo."""

    def __init__(self, procfs: Path) -> None:
        self._path = procfs / "meminfo"

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """available_memory_bytes."""
        available, detail = None, "the kernel tells no MemAvailable"
        try:
            available = meminfo_bytes(self._path, b"MemAvailable")
        except (OSError, ValueError) as error:
            detail = reason(error, str(self._path))
        known = available is not None
        return (Reading(NAME, available, "B", str(self._path), now, "" if known else detail),)
