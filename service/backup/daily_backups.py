"""The daemon's own backups of its database: one a day, when the device is idle."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from service import allocator
from service.background import BackgroundTasks
from service.events import Feed
from service.logs import event
from service.policy.device_monitor import DeviceMonitor
from storage.database.codec import utc_now
from storage.database.transaction import Happening
from storage.errors import DatabaseDamaged, HoneError
from storage.store import Store

logger = logging.getLogger(__name__)

DUE = timedelta(days=1)
OVERDUE = timedelta(days=2)
"""After this, a backup is made even if the device is not idle."""
LARGEST_AT_STOP_BYTES = 256 * 2**20
"""A larger database is not backed up at shutdown, which would have to wait for the copy."""


class DailyBackups:
    """Makes backups, and removes deleted models from them. Belongs to the event loop."""

    def __init__(
        self,
        store: Store,
        monitor: DeviceMonitor,
        feed: Feed,
        *,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        self._store = store
        self._monitor = monitor
        self._now = now
        self._tasks = BackgroundTasks()
        feed.listen(self._on_event)

    async def stop(self) -> None:
        """Make a backup if one is due, and wait for work under way."""
        await self._tasks.wait()
        await asyncio.to_thread(self._make_at_stop)

    async def make_if_due(self) -> None:
        """Make one if the last is a day old and the device is idle, or if it is two days old."""
        age = await asyncio.to_thread(self._age)
        if age < DUE:
            return
        if age < OVERDUE and not (await self._monitor.observe()).verdict.eligible:
            return
        await asyncio.to_thread(self._make)

    def _make_at_stop(self) -> None:
        if self._store.broken is not None or self._age() < DUE:
            return
        if self._store.database.stat().st_size <= LARGEST_AT_STOP_BYTES:
            self._make()

    def _age(self) -> timedelta:
        """Age of the newest backup; without one, or if it is from the future, the maximum."""
        now = self._now()
        newest = self._store.backups.newest(now)
        return timedelta.max if newest is None or newest > now else now - newest

    def _make(self) -> None:
        """Make a backup. Failure is logged, and retried within the hour."""
        try:
            backup = self._store.backups.make(self._now())
        except DatabaseDamaged as error:
            event(logger, logging.ERROR, "backup.not_sound", detail=error.detail)
        except HoneError as error:
            event(logger, logging.WARNING, "backup.failed", code=error.code, detail=error.detail)
        else:
            if backup is not None:
                event(logger, logging.INFO, "backup.made", file=backup.name)
        allocator.trim()

    def _on_event(self, happened: Happening) -> None:
        if happened.type == "model.deleted":
            forgetting = asyncio.to_thread(self._store.backups.forget_deleted_models)
            self._tasks.start(forgetting, name="backups")
