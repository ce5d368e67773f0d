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
"""A look and the wake-up before it take 0.25 ms, of a machine that is to be left to training."""
PAGE_MB = mmap.PAGESIZE / 2**20


class Peak:
    """The most that was seen, MB. own: anonymous memory, which mapped files are no part of.

    resident: with the pages of mapped files that the process has touched.
    """

    own = 0.0
    resident = 0.0

    def look(self, pid: int) -> bool:
        """Linux's `statm`, which costs it less than `status`; False once the process has ended."""
        try:
            _, resident, shared, *_ = map(int, Path(f"/proc/{pid}/statm").read_text().split())
        except OSError:
            return False
        self.own = max(self.own, (resident - shared) * PAGE_MB)
        self.resident = max(self.resident, resident * PAGE_MB)
        return resident > 0


def children(pid: int) -> list[int]:
    """The processes that this one has started, by Linux's list: psutil would walk all there are."""
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for each in lists for child in each.read_text().split()]


@contextmanager
def watching(pids: Callable[[], Iterable[int]]) -> Iterator[Peak]:
    """The peak of whichever processes these are, while the block runs.

    They are asked for again only when one has ended: to list a daemon's children at every look took
    a tenth of a processor, from the very training that is measured.
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
    """The JSON object that the command prints, and its peak."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    with watching(lambda: [process.pid]) as peak:
        output, _ = process.communicate()
    assert process.returncode == 0, command
    return json.loads(output), peak
