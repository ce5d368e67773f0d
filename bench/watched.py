"""Runs a process to its end and watches its memory."""

from __future__ import annotations

import json
import mmap
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

INTERVAL_S = 0.02
"""Each reading with its wake-up takes 0.25 ms, which the training loses."""
PAGE_MB = mmap.PAGESIZE / 2**20


class Peak:
    """Peaks in MB. own: anonymous memory, without mapped files.

    resident: includes the pages of mapped files that the process has touched.
    """

    own = 0.0
    resident = 0.0

    def look(self, pid: int) -> bool:
        """Read Linux's `statm`, cheaper than `status`; False once the process has ended."""
        try:
            _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
        except OSError:
            return False
        self.own = max(self.own, (resident - shared) * PAGE_MB)
        self.resident = max(self.resident, resident * PAGE_MB)
        return resident > 0


def children(pid: int) -> list[int]:
    """The children of a process, by Linux's list: psutil would scan all processes."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for path in lists for child in path.read_text().split()]


@contextmanager
def watching(pids: Callable[[], Iterable[int]]) -> Iterator[Peak]:
    """The peak of these processes while the block runs.

    They are listed again only when one has ended: listing a daemon's children at every reading took
    a tenth of a processor from the measured training.
    """
    peak, ended = Peak(), threading.Event()

    def watch() -> None:
        known: list[int] = []
        while not ended.wait(INTERVAL_S):
            if not known:
                known = list(pids())
            known = known if all(peak.look(pid) for pid in known) else []

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield peak
    finally:
        ended.set()
        thread.join()


def run(command: Sequence[str]) -> tuple[dict[str, Any], Peak]:
    """Run a command; returns the JSON object that it prints, and its peak."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with watching(lambda: [process.pid]) as peak:
        output, _ = process.communicate()
    assert process.returncode == 0, command
    return json.loads(output), peak
