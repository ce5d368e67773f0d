"""Events for subscribers: stored ones, and transient ones that are not kept."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from service.logs import event
from storage.database.codec import utc_now
from storage.database.transaction import Happening, TransientEvent
from storage.store import Store

logger = logging.getLogger(__name__)


REPLAYED_AT_ONCE = 500
LOST = "events.lost"
Announce = Callable[[str, str | None, dict[str, Any]], None]
"""Tells of something that is not stored: type, model, data. May be called from any thread."""
Listener = Callable[[Happening], None]


class Feed:
    """Hands what happens to listeners in the event loop, in the order in which it was stored.

    A listener has heard of a write before the writer's caller gets its answer: both travel through
    the loop's queue, the event first.
    """

    def __init__(self, store: Store) -> None:
        self._loop = asyncio.get_running_loop()
        self._listeners: tuple[Listener, ...] = ()
        self._readers: set[Reader] = set()
        self._closed = False
        store.events.subscribe(self._hand_over)

    def listen(self, listener: Listener) -> None:
        """Call `listener` with all that happens from now on; it must not block or raise."""
        self._listeners = (*self._listeners, listener)

    def announce(self, type: str, model: str | None, data: dict[str, Any]) -> None:  # noqa: A002
        """Tell of something that is not stored. From any thread."""
        self._hand_over(TransientEvent(type, model, data, utc_now()))

    @contextmanager
    def reader(
        self, wants: Callable[[Happening], bool], *, size: int, on_drop: Callable[[], None]
    ) -> Iterator[Reader]:
        """A queue of what happens while the block runs.

        size: most that may wait in it. on_drop: called once if more do; the reader has ended then.
        """
        reader = Reader(wants, size=size, on_drop=on_drop)
        self._readers.add(reader)
        if self._closed:
            reader.end()
        try:
            yield reader
        finally:
            self._readers.discard(reader)

    def close(self) -> None:
        """End every reader, those to come too."""
        self._closed = True
        for reader in self._readers:
            reader.end()

    def _hand_over(self, happened: Happening) -> None:
        self._loop.call_soon_threadsafe(self._tell, happened)

    def _tell(self, happened: Happening) -> None:
        for listener in self._listeners:
            listener(happened)
        for reader in self._readers:
            reader.put(happened)


class Reader:
    """What one follower has not taken yet. Belongs to the event loop."""

    def __init__(
        self, wants: Callable[[Happening], bool], *, size: int, on_drop: Callable[[], None]
    ) -> None:
        self._wants = wants
        self._size = size
        self._on_drop = on_drop
        self._waiting: deque[Happening] = deque()
        self._changed = asyncio.Event()
        self.ended = False

    def put(self, happened: Happening) -> None:
        """Queue what the follower wants; a full queue ends it."""
        if self.ended or not self._wants(happened):
            return
        if len(self._waiting) >= self._size:
            event(logger, logging.WARNING, "events.reader_dropped", waiting=self._size)
            self._waiting.clear()
            self.end()
            self._on_drop()
            return
        self._waiting.append(happened)
        self._changed.set()

    def end(self) -> None:
        """Let `take` return at once from now on."""
        self.ended = True
        self._changed.set()

    async def take(self, *, timeout_s: float) -> list[Happening]:
        """All that waits, once something does; nothing at the timeout or the end."""
        try:
            await asyncio.wait_for(self._changed.wait(), timeout_s)
        except asyncio.TimeoutError:
            return []
        self._changed.clear()
        if self.ended:
            self._changed.set()
        taken = list(self._waiting)
        self._waiting.clear()
        return taken


async def replay(store: Store, *, after: int) -> AsyncIterator[tuple[int, Sequence[Happening]]]:
    """Stored events later than `after`, each batch with the last id that it covers.

    Opens with `events.lost` if some in between are no longer kept, or the ids began anew.
    """
    last = await asyncio.to_thread(store.events.last_id)
    if after > last:
        yield last, [_lost(after, last)]
        return
    while stored := await asyncio.to_thread(store.events.since, after, REPLAYED_AT_ONCE):
        first = stored[0].id
        lost = [_lost(after, first)] if first > after + 1 else []
        after = stored[-1].id
        yield after, [*lost, *stored]


def _lost(after: int, before: int) -> TransientEvent:
    return TransientEvent(LOST, None, {"after": after, "before": before}, utc_now())
