"""Which programs of a watch list run. Without a list nothing is looked at."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from service.device.files import list_folder, read_bytes
from service.device.reading import Moment, Reading, Sensor

NAME = "running_processes"
COMM_BYTES = 15
"""The kernel keeps this much of a program's name."""


class ProcessWatcher(Sensor, Protocol):
    """A sensor that looks for the programs of a list."""

    watched: tuple[str, ...]


class LinuxProcesses:
    """/proc/<pid>/comm. All are read every time: a shell becomes a game by exec alone."""

    def __init__(self, procfs: Path) -> None:
        self._procfs = str(procfs)
        self.watched: tuple[str, ...] = ()

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """running_processes: the watched names that run, as they stand on the list."""
        if not self.watched:
            return (Reading(NAME, (), "", self._procfs, now),)
        pids = [name for name in list_folder(self._procfs) if name.isdigit()]
        if not pids:
            return (Reading(NAME, None, "", self._procfs, now, "no processes are listed there"),)
        running = {self._comm(pid) for pid in pids}
        found = tuple(name for name in self.watched if name.encode()[:COMM_BYTES] in running)
        return (Reading(NAME, found, "", self._procfs, now),)

    def _comm(self, pid: str) -> bytes:
        try:
            return read_bytes(f"{self._procfs}/{pid}/comm").rstrip(b"\n")
        except OSError:
            return b""  # It ended since the folder was listed.


def unique(names: Sequence[str]) -> tuple[str, ...]:
    """The names without repeats, in their order."""
    return tuple(dict.fromkeys(names))
