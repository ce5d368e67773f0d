"""Background tasks: each is kept until it ends, and its exceptions are logged; periodic work."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from datetime import datetime, timedelta
from typing import Any

from apscheduler.schedulers.asyncio import AsyncIOScheduler
from apscheduler.triggers.base import BaseTrigger

from service.logs import event
from storage.errors import HoneError

logger = logging.getLogger(__name__)


class BackgroundTasks:
    """Tasks of one owner. Belongs to the event loop, which keeps weak references only."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None], *, name: str) -> None:
        """Begin; name: for the log, if it fails."""
        task = asyncio.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    async def wait(self) -> None:
        """Return once all have ended, those too that begin meanwhile."""
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, HoneError):
            told = {"task": task.get_name(), "code": error.code, "detail": error.detail}
            event(logger, logging.ERROR, "background.failed", **told)
        else:
            logger.error(
                "background.failed", exc_info=error, extra={"fields": {"task": task.get_name()}}
            )


class Every(BaseTrigger):  # type: ignore[misc]
    """Fires this long after it fired last.

    Once after a sleep or a jump of the clock: APScheduler's own trigger lists all that were missed,
    which are 30 million minutes where a clock starts in 1970.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval = timedelta(seconds=interval_s)

    def get_next_fire_time(self, _previous: datetime | None, now: datetime) -> datetime:
        return now + self._interval


def timer() -> AsyncIOScheduler:
    """Runs work at its times, or once afterwards, however late: the device may have slept."""
    late = {"misfire_grace_time": None, "coalesce": True}
    return AsyncIOScheduler(timezone="UTC", job_defaults=late)
