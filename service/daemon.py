"""The daemon: builds every part once, starts them in order, stops them in reverse."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from apscheduler.schedulers.asyncio import AsyncIOScheduler

from service.events import Feed
from service.hooks import PromotionHook
from service.latest import LatestVersions
from service.logs import event
from service.prediction.predictor import Predictor
from service.registry import Registry
from service.settings import Settings
from service.trainer import Trainer
from storage.store import Store

logger = logging.getLogger(__name__)

EVENTS_KEPT = 10_000
MAINTENANCE_INTERVAL_S = 3600


class Daemon:
    """Store, registry and trainer of one data folder.

    on_fatal: called once if the trainer or the storage cannot go on; the process should end.
    """

    store: Store
    registry: Registry
    feed: Feed
    latest: LatestVersions
    predictor: Predictor
    hook: PromotionHook
    trainer: Trainer

    def __init__(self, settings: Settings, *, on_fatal: Callable[[], None]) -> None:
        self.settings = settings
        self._on_fatal = on_fatal
        self._scheduler = AsyncIOScheduler(timezone="UTC")
        self._training: asyncio.Task[None] | None = None

    @property
    def is_ready(self) -> bool:
        """Whether it takes work: started, and the trainer lives."""
        return self._training is not None and not self._training.done()

    async def start(self) -> None:
        """Open the store, then take up the queue. Raises DataDirLocked, StorageBroken, …"""
        self.store = await asyncio.to_thread(
            Store.open,
            self.settings.data_dir,
            write_queue_size=self.settings.write_queue_size,
        )
        self.registry = Registry(self.store, self.settings)
        self.feed = Feed(self.store)
        self.latest = LatestVersions(self.store, self.feed)
        self.predictor = Predictor(self.store, self.settings, latest=self.latest, feed=self.feed)
        self.hook = PromotionHook(self.store, self.settings, latest=self.latest, feed=self.feed)
        self.trainer = Trainer(self.store, self.settings, announce=self.feed.announce)
        self._training = asyncio.create_task(self.trainer.run())
        self._training.add_done_callback(self._trainer_ended)
        self._scheduler.add_job(
            self.store.events.prune,
            "interval",
            seconds=MAINTENANCE_INTERVAL_S,
            args=[EVENTS_KEPT],
        )
        self._scheduler.start()
        event(logger, logging.INFO, "daemon.started", data_dir=str(self.settings.data_dir))

    def release_waiting(self) -> None:
        """Let requests that wait for something end: the daemon is about to stop."""
        self.latest.close()
        self.feed.close()

    async def stop(self) -> None:
        """Stop asking, pause the running job, close the store."""
        self._scheduler.shutdown(wait=False)
        self.trainer.stop()
        if self._training is not None:
            await asyncio.wait({self._training})
        await self.hook.stop()
        await self.predictor.stop()
        await asyncio.to_thread(self.store.close)
        event(logger, logging.INFO, "daemon.stopped")

    def _trainer_ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            logger.critical("trainer.ended", exc_info=error)
            self._on_fatal()
