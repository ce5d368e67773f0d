"""Foreign CPU load: the processor time used by other programs.

Definition: the share of the whole machine's capacity between two readings (all online processors,
so that 100 % is all of them busy) that was spent busy outside our own process tree. Busy is user,
nice, system and interrupt time; idle, iowait and time stolen by a hypervisor are not. Ours is the
daemon and every descendant, with all their threads, dead ones included.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from service.device.linux.files import list_folder, read_bytes, reason
from service.device.reading import Moment, Reading

NAME = "foreign_cpu_percent"
MIN_TICKS = 50
FULL_SCAN_S = 60.0


class CpuTimes(Struct, frozen=True):
    """Sums since boot, in one unit: of all processors, of their busy time, of our own."""

    total: float
    busy: float
    own: float


def foreign_percent(before: CpuTimes, after: CpuTimes) -> float:
    """Share of the machine's capacity that others used between the two, in percent."""
    own = max(0.0, after.own - before.own)
    foreign = after.busy - before.busy - own
    return min(100.0, max(0.0, 100.0 * foreign / (after.total - before.total)))


class Process(Struct, frozen=True):
    """From /proc/<pid>/stat. ticks: of its threads, including dead ones, and of reaped children."""

    parent: int
    ticks: int


def parse_stat(content: bytes) -> Process:
    """proc(5): the command is in parentheses and may itself contain any character.

    Raises ValueError.
    """
    _, parent, *rest = content[content.rindex(b")") + 2 :].split()
    return Process(parent=int(parent), ticks=sum(int(field) for field in rest[9:13]))


class ProcessTree:
    """CPU time of our own process and its descendants.

    A process keeps its parent until the parent dies. So processes once found to be foreign are
    skipped until they end; every minute all are read again, because process ids are reused.
    """

    def __init__(self, procfs: Path) -> None:
        self._procfs = str(procfs)
        self._self = procfs / "self"
        self._foreign: set[int] = set()
        self._scanned_at_s: float | None = None

    def ticks(self, now: Moment) -> int:
        """Clock ticks of the whole tree since boot. Raises OSError without a /proc/self."""
        root = int(self._self.readlink().name)
        if self._scanned_at_s is None or now.monotonic_s - self._scanned_at_s >= FULL_SCAN_S:
            self._foreign.clear()
            self._scanned_at_s = now.monotonic_s
        pids = {int(name) for name in list_folder(self._procfs) if name.isdigit()}
        self._foreign &= pids
        read = {pid: self._read(pid) for pid in pids - self._foreign}
        seen = {pid: process for pid, process in read.items() if process is not None}
        own = _descendants(root, seen)
        self._foreign |= seen.keys() - own
        return sum(seen[pid].ticks for pid in own)

    def _read(self, pid: int) -> Process | None:
        try:
            return parse_stat(read_bytes(f"{self._procfs}/{pid}/stat"))
        except (OSError, ValueError):
            return None  # It ended after the folder was listed.


def _descendants(root: int, processes: dict[int, Process]) -> set[int]:
    children: dict[int, list[int]] = {}
    for pid, process in processes.items():
        children.setdefault(process.parent, []).append(pid)
    family, waiting = set(), [root]
    while waiting:
        pid = waiting.pop()
        if pid in processes:
            family.add(pid)
        waiting += children.get(pid, ())
    return family


class LinuxForeignCpu:
    """/proc/stat minus our own tree, since the previous reading, or since its creation."""

    def __init__(self, procfs: Path, now: Moment) -> None:
        self._stat = str(procfs / "stat")
        self._tree = ProcessTree(procfs)
        self._before: CpuTimes | None = None
        self._percent: float | None = None
        self.read(now)

    def read(self, now: Moment) -> tuple[Reading, ...]:
        """foreign_cpu_percent; the previous one if hardly any time has passed."""
        detail = "measured from one reading to the next, and this is the first"
        try:
            after = self._times(now)
        except (OSError, ValueError) as error:
            self._before, self._percent, detail = None, None, reason(error, self._stat)
        else:
            self._advance(after)
        return (
            Reading(NAME, self._percent, "%", self._stat, now, unless_known(self._percent, detail)),
        )

    def _advance(self, after: CpuTimes) -> None:
        if self._before is None:
            self._before = after
        elif after.total - self._before.total >= MIN_TICKS:
            self._percent = foreign_percent(self._before, after)
            self._before = after

    def _times(self, now: Moment) -> CpuTimes:
        line = read_bytes(self._stat).split(b"\n", 1)[0]
        # cpu user nice system idle iowait irq softirq steal; guest time is within user and nice.
        user, nice, system, idle, iowait, irq, softirq, steal = map(int, line.split()[1:9])
        busy = user + nice + system + irq + softirq
        return CpuTimes(busy + idle + iowait + steal, busy, self._tree.ticks(now))


def unless_known(value: float | None, detail: str) -> str:
    """Why a value is unknown, if it is."""
    return detail if value is None else ""
