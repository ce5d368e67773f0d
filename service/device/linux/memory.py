"""Memory that a new program could have without swapping."""

from __future__ import annotations

from pathlib import Path

from service.device.linux.files import read_bytes, reason
from service.device.reading import Moment, Reading

NAME = "available_memory_bytes"


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
