"""Which programs of a watch list are running. Without a list nothing is read.

The daemon and its descendants never count: a training child runs as `python3`, and a person who
lists that name means other programs.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Protocol

from service.device.linux.cpu import parse_stat
from service.device.linux.files import list_folder, read_bytes
from service.device.reading import Moment, Reading, Sensor

NAME = "running_processes"
COMM_BYTES = 15
"""The kernel keeps this many bytes of a program's name."""
SETTLED_S = 5.0


class ProcessWatcher(Sensor, Protocol):
    """A sensor that looks for the programs of a list."""

    watched: tuple[str, ...]


class LinuxProcesses:
    """/proc/<pid>/comm, of new processes; periodically of all.

    A process takes another program's name only by exec, mostly right after its start. So a name
    counts as final only once its process is some seconds old, and is read again periodically.
    """

    def __init__(self, procfs: Path) -> None:
        self._procfs = str(procfs)
        self.watched: tuple[str, ...] = ()
        self._seen: dict[str, tuple[float, bytes]] = {}
        self._read_all_at_s = 0.0

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """running_processes: the watched names that are running, as spelt in the list."""
        if not self.watched:
            return (Reading(NAME, (), "", self._procfs, now),)
        pids = [name for name in list_folder(self._procfs) if name.isdigit()]
        if not pids:
            return (Reading(NAME, None, "", self._procfs, now, "no processes are listed there"),)
        running = self._names(pids, now.monotonic_s)
        names = tuple(name for name in self.watched if self._runs(name, running))
        return (Reading(NAME, names, "", self._procfs, now),)

    def _runs(self, name: str, running: dict[str, bytes]) -> bool:
        comm = name.encode()[:COMM_BYTES]
        return any(not self._is_ours(pid) for pid, own in running.items() if own == comm)

    def _is_ours(self, pid: str) -> bool:
        """Whether the process is the daemon, or one of its descendants."""
        try:
            daemon = os.readlink(f"{self._procfs}/self")  # noqa: PTH115 - a plain name
            while pid not in (daemon, "0", "1"):
                pid = str(parse_stat(read_bytes(f"{self._procfs}/{pid}/stat")).parent)
        except (OSError, ValueError):
            return False  # It has ended, or the tree is not this daemon's.
        return pid == daemon

    def _names(self, pids: list[str], now_s: float) -> dict[str, bytes]:
        read_all = now_s - self._read_all_at_s >= SETTLED_S
        if read_all:
            self._read_all_at_s = now_s
        before, self._seen = self._seen, {}
        for pid in pids:
            since_s, name = before.get(pid, (now_s, b""))
            if read_all or now_s - since_s < SETTLED_S:
                name = self._comm(pid)
            self._seen[pid] = (since_s, name)
        return {pid: name for pid, (_, name) in self._seen.items()}

    def _comm(self, pid: str) -> bytes:
        try:
            return read_bytes(f"{self._procfs}/{pid}/comm").rstrip(b"\n")
        except OSError:
            return b""  # It ended after the folder was listed.
