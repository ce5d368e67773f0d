"""Caches what `latest` names: apps ask for it every second."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from msgspec import Struct

from service.events import Feed
from storage.database.transaction import Happening
from storage.records.models import Model
from storage.records.versions import Version
from storage.store import Store

CHANGES = ("alias.", "model.", "variant.", "version.")
"""Prefixes of event types that invalidate a model's entry."""


class Latest(Struct, frozen=True):
    """A model and the version that `latest` names. The model's sample counts may be stale."""

    model: Model
    version: Version


class LatestVersions:
    """Model → `Latest`, read on first use, and again after an event that changes it.

    Belongs to the event loop. A caller whose write was acknowledged sees it here: the write's event
    invalidates the entry first (see `Feed`).
    """

    def __init__(self, store: Store, feed: Feed) -> None:
        self._store = store
        self._known: dict[str, asyncio.Task[Latest]] = {}
        self._waiting: dict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self.closed = False
        """Whether the daemon is stopping, so that waiting is pointless."""
        feed.listen(self._on_event)

    async def get(self, model: str) -> Latest:
        """Uses neither a thread nor the database unless it has changed. Raises NotFound."""
        while True:
            reading = self._known.get(model)
            if reading is None:
                reading = asyncio.create_task(asyncio.to_thread(self._load, model))
                self._known[model] = reading
                reading.add_done_callback(partial(self._forget_failure, model))
            latest = await asyncio.shield(reading)
            if self._known.get(model) is reading:
                return latest

    @contextmanager
    def change(self, model: str) -> Iterator[asyncio.Future[None]]:
        """A future that is done once the model's entry may have changed, or the daemon stops."""
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = self._waiting[model]
        waiting.add(changed)
        if self.closed:
            changed.set_result(None)
        try:
            yield changed
        finally:
            waiting.discard(changed)
            if not waiting and self._waiting.get(model) is waiting:
                del self._waiting[model]

    def close(self) -> None:
        """Wake everyone who waits for a change."""
        self.closed = True
        for model in list(self._waiting):
            self._wake(model)

    def _on_event(self, happened: Happening) -> None:
        if happened.model is not None and happened.type.startswith(CHANGES):
            self._known.pop(happened.model, None)
            self._wake(happened.model)

    def _wake(self, model: str) -> None:
        for changed in self._waiting.pop(model, ()):
            if not changed.done():
                changed.set_result(None)

    def _forget_failure(self, model: str, reading: asyncio.Task[Latest]) -> None:
        failed = reading.cancelled() or reading.exception() is not None
        if failed and self._known.get(model) is reading:
            del self._known[model]

    def _load(self, name: str) -> Latest:
        model = self._store.models.get(name)
        return Latest(model, self._store.integrity.latest(model.id))
