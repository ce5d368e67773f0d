"""Runs a process to its end and watches its memory."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

INTERVAL_S = 0.005


class Peak:
    """The most that was seen, MB. own: anonymous memory, which mapped files are no part of.

    resident: with the pages of mapped files that the process has touched.
    """

    own = 0.0
    resident = 0.0

    def look(self, pid: int) -> None:
        """Linux's RssAnon and VmRSS; nothing once the process is gone."""
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except OSError:
            return
        self.own = max(self.own, _mb(status, "RssAnon"))
        self.resident = max(self.resident, _mb(status, "VmRSS"))


def children(pid: int) -> list[int]:
    """The processes that this one has started; Linux's list, which costs microseconds.

    Walking all processes, as psutil must, took a fifth of a core at this interval, from the very
    training that was to be measured.
    """
    lists = Path(f"/proc/{pid}/task").glob("*/children")
    return [int(child) for each in lists for child in each.read_text().split()]


@contextmanager
def watching(pids: Callable[[], Iterable[int]]) -> Iterator[Peak]:
    """The peak of whichever processes these are, while the block runs."""
    peak, ended = Peak(), threading.Event()

    def watch() -> None:
        while not ended.wait(INTERVAL_S):
            for pid in pids():
                peak.look(pid)

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


def _mb(status: str, name: str) -> float:
    match = re.search(rf"{name}:\s+(\d+) kB", status)
    return int(match[1]) / 1024 if match else 0.0
