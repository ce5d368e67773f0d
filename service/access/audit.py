"""The audit log of refusals and exports, which are counted and written once a second.

Entries about changes are written elsewhere, together with the changes themselves.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import datetime

from msgspec.structs import replace

from service.background import BackgroundTasks
from storage.database.codec import utc_now
from storage.errors import HoneError
from storage.records.access import NewEntry
from storage.store import Store

WRITE_AFTER_S = 1.0
MOST_WAITING = 1000
"""Of different entries of one principal in a second; beyond it, they are counted without path."""


class AuditLog:
    """Entries that wait to be written. Belongs to the event loop."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._waiting: dict[NewEntry, tuple[datetime, int]] = {}
        self._different: Counter[str] = Counter()
        self._is_due = False
        self._tasks = BackgroundTasks()

    def note(self, entry: NewEntry) -> None:
        """Count an entry; it is written within a second or so."""
        if self._different[entry.who] >= MOST_WAITING and entry not in self._waiting:
            entry = replace(entry, path="…", model=None)
        self._different[entry.who] += entry not in self._waiting
        first, count = self._waiting.get(entry, (utc_now(), 0))
        self._waiting[entry] = first, count + 1
        if not self._is_due:
            self._is_due = True
            self._loop.call_later(WRITE_AFTER_S, self._write_soon)

    async def write(self) -> None:
        """Store the pending entries. Those that cannot be stored stay pending."""
        entries, self._waiting, self._is_due = self._waiting, {}, False
        self._different.clear()
        if not entries:
            return
        rows = [replace(entry, at=at, count=count) for entry, (at, count) in entries.items()]
        try:
            await asyncio.to_thread(self._store.audit.add, rows)
        except HoneError:
            for entry, (at, count) in entries.items():
                self._waiting[entry] = at, count + self._waiting.get(entry, (at, 0))[1]
            raise

    async def stop(self) -> None:
        """Write the remaining entries."""
        await self._tasks.wait()
        await self.write()

    def _write_soon(self) -> None:
        self._tasks.start(self.write(), name="audit")
