"""The last lines of a job's children, kept with the job: what they wrote, and how each ended."""

from __future__ import annotations

import logging
import re
from collections import deque
from collections.abc import Sequence
from typing import Literal

from service.errors import ChildDied
from service.logs import event
from service.processes.exits import LAST_WORDS
from service.training.protocol.messages.training import Started
from storage.database.codec import utc_now
from storage.errors import HoneError, NotFound, StorageBroken, counted
from storage.records.jobs import LogLine
from storage.store import Store

logger = logging.getLogger(__name__)

MOST_LINES = 200
MOST_CHARACTERS = 64 * 1024
LONGEST_LINE = 1000
_PATH = re.compile(r"(?:[A-Za-z]:)?(?:[\\/][\w.+@~-]+){2,}(?=[\\/][\w.+@~-]+[\\/][\w.+@~-]+)")
_CONTROL = re.compile(r"\x1b\[[0-9;]*[A-Za-z]|[\x00-\x08\x0b-\x1f\x7f-\x9f]")


class JobLog:
    """A ring buffer of lines. Belongs to the event loop; `shown`, `load` and `save` block.

    Saved with the job's progress, so that a daemon that is killed loses the last second's lines.

    Anyone who may see the job may read it, so only the ends of paths are kept: the rest would
    reveal the installation and its user.
    """

    def __init__(self, job_id: int, store: Store) -> None:
        self._job_id = job_id
        self._store = store
        self._lines: deque[LogLine] = deque(maxlen=MOST_LINES)
        self._rest = b""
        self._is_saved = True
        self._is_loaded = False

    @property
    def lines(self) -> tuple[LogLine, ...]:
        """The lines kept, oldest first."""
        return tuple(self._lines)

    def shown(self) -> Sequence[LogLine]:
        """The lines for who asks: those stored until `load` has begun with them. Blocking."""
        return self.lines if self._is_loaded else self._store.jobs.log(self._job_id)

    def load(self) -> None:
        """Begin with the lines of earlier runs."""
        self._lines.extend(self._store.jobs.log(self._job_id))
        self._is_loaded = True

    def take(self, chunk: bytes) -> None:
        """Add output of a child; a line may come in pieces."""
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        self._rest = self._rest[-LONGEST_LINE:]
        for line in whole:
            self._add("child", line.decode(errors="replace"))

    def ended(self, death: ChildDied) -> None:
        """Note that a child died; its own output is logged already."""
        self.note(death.detail.partition(LAST_WORDS)[0])

    def note(self, text: str) -> None:
        """Add a remark of the daemon, after everything that the child wrote."""
        if self._rest:
            self.take(b"\n")
        for line in text.splitlines():
            self._add("daemon", line)

    def began(self, message: Started) -> None:
        """Note that the child has loaded engine and samples."""
        samples, threads = message.train_samples, counted(message.threads, "thread")
        self.note(f"training on {counted(samples, 'sample')}, {threads}, {message.engine}")

    def save(self) -> None:
        """Store the lines of a job that is there. A full disk does not fail it."""
        if self._is_saved:
            return
        self._is_saved = True
        try:
            self._store.jobs.set_log(self._job_id, self.lines)
        except StorageBroken:
            raise
        except NotFound:
            return  # deleted with its model, once it was cancelled
        except HoneError as error:
            event(logger, logging.WARNING, "job.log_not_written", detail=error.detail)

    def _add(self, source: Literal["child", "daemon"], text: str) -> None:
        text = _CONTROL.sub("", _PATH.sub("…", text)).rstrip()[:LONGEST_LINE]
        if not text:
            return
        self._lines.append(LogLine(utc_now(), source, text))
        while sum(len(line.text) for line in self._lines) > MOST_CHARACTERS:
            self._lines.popleft()
        self._is_saved = False
