"""Memory: the limit for this process and its children, and how much is free now."""

from __future__ import annotations

import sys
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
    sizes = [_mem_total_bytes(procfs), *_cgroup_limits(procfs, sysfs)]
    return min((size for size in sizes if size is not None), default=None)


def _mem_total_bytes(procfs: Path) -> int | None:
    for line in (read_attribute(str(procfs / "meminfo")) or "").splitlines():
        name, _, value = line.partition(":")
        if name == "MemTotal":
            return int(value.removesuffix("kB")) * 1024
    return None


def _cgroup_limits(procfs: Path, sysfs: Path) -> list[int]:
    """The limits of the process's own group and all its parents; `max` means no limit.

    A container may show the path of the host here and mount its own group at the root.
    Source: cgroups(7), "/proc/pid/cgroup"; the kernel's cgroup-v2.rst, "memory.max".
    """
    limits: list[int] = []
    for line in (read_attribute(str(procfs / "self" / "cgroup")) or "").splitlines():
        _, controllers, path = line.split(":", 2)
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


def mem_available_bytes(content: bytes) -> int | None:
    """MemAvailable of /proc/meminfo, or None before Linux 3.14. Raises ValueError."""
    for line in content.splitlines():
        name, _, value = line.partition(b":")
        if name == b"MemAvailable":
            return int(value.removesuffix(b"kB")) * 1024
    return None


class LinuxMemory:
    """/proc/meminfo."""

    def __init__(self, procfs: Path) -> None:
        self._path = str(procfs / "meminfo")

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """available_memory_bytes."""
        available, detail = None, "the kernel tells no MemAvailable"
        try:
            available = mem_available_bytes(read_bytes(self._path))
        except (OSError, ValueError) as error:
            detail = reason(error, self._path)
        return (
            Reading(NAME, available, "B", self._path, now, "" if available is not None else detail),
        )
