"""The daemon: builds every part once, starts them in order, stops them in reverse."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from functools import partial
from typing import Any

from service.access.audit import AuditLog
from service.access.peers import principals_of
from service.access.sign_in import SignIn
from service.access.tokens import TokenRegistry
from service.access.usage import Usages
from service.background import BackgroundTasks, Every, timer
from service.backup.daily_backups import DailyBackups
from service.backup.verification import Verifier
from service.errors import NotReady
from service.events import Feed
from service.federation.deadlines import Deadlines
from service.federation.measuring import Measuring
from service.follow.credentials import login_of
from service.follow.follower import SWEEP_S, Follower
from service.installation.inspector import Inspector
from service.jobs.scheduler import Scheduler
from service.jobs.short_tasks import ShortTasks
from service.jobs.sleep import SleepWatch
from service.logs import event
from service.models.classes import Classes
from service.models.latest import LatestVersions
from service.models.promotion.best import prune_all
from service.models.promotion_hook import PromotionHook, require_program
from service.models.registry import Registry
from service.models.upgrade.upgrades import Upgrades
from service.models.variants import VariantMaker
from service.models.version_comparison import VersionComparison
from service.policy.device_monitor import DeviceMonitor
from service.prediction.predictor import Predictor
from service.processes.children import Children
from service.samples.drift import DriftWatch
from service.samples.erasure import Erasure
from service.samples.mask_checks import MaskChecks
from service.samples.ranking import SampleRanking
from service.samples.thumbnails import Thumbnails
from service.settings import Settings
from service.supervision import Supervisor
from service.triggers.schedule import Schedule
from storage.errors import Busy, StorageBroken, StorageFull
from storage.store import Store

logger = logging.getLogger(__name__)

MAINTENANCE_INTERVAL_S = 3600


class Daemon:
    """Store, registry and scheduler of one data folder.

    on_fatal: called once if the scheduler or the storage cannot go on; the process should end.
    Raises BadSetting for a user or a command that the system lacks.
    """

    def __init__(self, settings: Settings, *, on_fatal: Callable[[], None]) -> None:
        self.settings = settings
        self._on_fatal = on_fatal
        self.peers = principals_of(settings.socket_users)
        require_program(settings.on_promoted)
        login_of(settings.registry_credentials, "localhost")  # raises unless it can be read
        self.supervisor = Supervisor.of_environment(
            {"writer": self._writer_works, "scheduler": self._scheduler_works}
        )
        self._timer = timer()
        self._training: asyncio.Task[None] | None = None
        self._monitoring: asyncio.Task[None] | None = None
        self._sleep: asyncio.Task[None] | None = None
        self._rounds: asyncio.Task[None] | None = None

    def require_ready(self) -> None:
        """Raises NotReady unless it takes work: the scheduler lives, the storage can be written."""
        if self._training is None or self._training.done():
            raise NotReady("the daemon is starting or stopping; ask again in a moment")
        if self.store.broken is not None:
            raise NotReady(f"the storage failed, and the daemon ends: {self.store.broken}")

    def storage_fault(self) -> StorageBroken | None:
        """Why nothing can be written any more; notices a database that was removed or replaced."""
        try:
            self.store.require_sound()
        except StorageBroken as fault:
            return fault
        return None

    @property
    def storage_is_broken(self) -> bool:
        """Whether the storage has failed, so that a restart is needed."""
        return hasattr(self, "store") and self.store.broken is not None

    async def start(self) -> None:
        """Open the store, then take up the queue. Raises DataDirLocked, StorageBroken, …"""
        self.store = await asyncio.to_thread(
            Store.open,
            self.settings.data_dir,
            write_queue_size=self.settings.write_queue_size,
            on_broken=self._end_soon(),
        )
        self._build()
        await asyncio.to_thread(self.store.backups.forget_deleted_models)  # left by the last run
        self._monitoring = self._watched("device_monitor", self.monitor.run())
        self._training = self._watched("scheduler", self.scheduler.run())
        self._sleep = self._watched("sleep", SleepWatch(self.monitor, self.scheduler).run())
        self._rounds = self._watched("deadlines", self.deadlines.run())
        self._start_timer()
        event(logger, logging.INFO, "daemon.started", data_dir=str(self.settings.data_dir))

    def _build(self) -> None:
        """Make every part, each with what it needs."""
        self.tokens = TokenRegistry(self.store)
        self.sign_in = SignIn(self.tokens)
        self.usages = Usages(self.store, self.tokens)
        self.audit = AuditLog(self.store)
        self.children = Children(memory_cap_bytes=self.settings.training_memory_bytes)
        short_tasks = ShortTasks(self.store, self.settings, self.children)
        self.registry = Registry(self.store, short_tasks)
        self.classes = Classes(self.store, short_tasks, self.registry)
        self.feed = Feed(self.store)
        self.latest = LatestVersions(self.store, self.feed)
        self.predictor = Predictor(
            self.store, self.settings, self.children, latest=self.latest, feed=self.feed
        )
        self.hook = PromotionHook(self.store, self.settings, latest=self.latest, feed=self.feed)
        self.monitor = DeviceMonitor(self.store, self.settings)
        self.monitor.listen(
            lambda observation: self.children.memory.change(observation.policy.memory_limit_bytes)
        )
        self.scheduler = Scheduler(
            self.store, self.settings, monitor=self.monitor, children=self.children, feed=self.feed
        )
        self.upgrades = Upgrades(
            self.store, short_tasks, self.registry, scheduler=self.scheduler, feed=self.feed
        )
        self._build_rest(short_tasks)

    def _build_rest(self, short_tasks: ShortTasks) -> None:
        """What is made of versions, and what is done beside jobs."""
        self.variants = VariantMaker(self.store, short_tasks)
        self.erasure = Erasure(self.store, self.scheduler, self.feed)
        self.thumbnails = Thumbnails(self.store, self.children)
        self.masks = MaskChecks(self.children)
        self.ranking = SampleRanking(self.store, short_tasks)
        self.versions = VersionComparison(self.store, short_tasks)
        self.drift = DriftWatch(self.store, short_tasks, self.monitor)
        self.deadlines = Deadlines(self.store, self.scheduler)
        self.measuring = Measuring(self.store, self.settings, short_tasks)
        self.inspector = Inspector(self.store, self.settings, self.children)
        self.daily_backups = DailyBackups(self.store, self.monitor, self.feed)
        self.verification = Verifier(self.store, self.monitor)
        self.follower = Follower(
            self.store,
            self.settings,
            monitor=self.monitor,
            children=self.children,
            feed=self.feed,
            upgrades=self.upgrades,
        )

    def _start_timer(self) -> None:
        """Begin the hourly work, and the triggers."""
        hourly = partial(self._timer.add_job, trigger=Every(MAINTENANCE_INTERVAL_S))
        hourly(self.store.history.prune, args=[timedelta(days=self.settings.history_days)])
        hourly(self.usages.save)
        kept = timedelta(days=self.settings.audit_days)
        hourly(self.store.audit.prune, args=[kept], kwargs={"most": self.settings.audit_entries})
        hourly(prune_all, args=[self.store])
        hourly(self.upgrades.try_again)
        hourly(self.erasure.sweep)
        hourly(self.daily_backups.make_if_due)
        hourly(self.verification.run_if_due)
        hourly(self.drift.check_all)
        self._timer.add_job(self.follower.look, Every(SWEEP_S))
        self._timer.start()
        self.schedule = Schedule(self.store, self._timer, monitor=self.monitor, feed=self.feed)
        self.schedule.start()

    def release_waiting(self) -> None:
        """Let requests that wait for something end: the daemon is about to stop."""
        self.latest.close()
        self.feed.close()
        self.variants.close()

    async def stop(self) -> None:
        """Stop the timer, pause the running job, close the store."""
        self.supervisor.stopping()
        self.release_waiting()
        self._timer.shutdown(wait=False)
        for task in filter(None, (self._sleep, self._rounds)):
            task.cancel()
            await asyncio.wait({task})
        self.scheduler.stop()
        if self._training is not None:
            await asyncio.wait({self._training})
        self.monitor.stop()
        if self._monitoring is not None:
            await asyncio.wait({self._monitoring})
        await self.upgrades.stop()
        await self.erasure.stop()
        await self.variants.stop()
        await self.hook.stop()
        await self.follower.stop()
        await self.predictor.stop()
        await self.verification.stop()
        await self.daily_backups.stop()
        rest = BackgroundTasks()  # which logs what a disk that takes no more refuses
        rest.start(self.usages.save(), name="usage")
        rest.start(self.audit.stop(), name="audit")
        await rest.wait()
        try:
            await asyncio.to_thread(self.store.close)
        except (StorageBroken, StorageFull) as error:  # the next start finds all in the log
            event(logger, logging.ERROR, "store.not_closed", detail=error.detail)
        event(logger, logging.INFO, "daemon.stopped")

    async def _writer_works(self) -> None:
        """Return once the thread that writes has come to a transaction of ours."""
        while True:
            with suppress(Busy):  # others are still before us: each try waits for some time
                await asyncio.to_thread(self.store.pass_through_writer)
                return

    async def _scheduler_works(self) -> None:
        await self.scheduler.passed()

    def _end_soon(self) -> Callable[[str], None]:
        """What the storage calls, from a thread of its own, when it can no longer be written."""
        loop = asyncio.get_running_loop()

        def end(_reason: str) -> None:
            loop.call_soon_threadsafe(self._on_fatal)

        return end

    def _watched(self, name: str, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work, name=name)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        if task.cancelled() or (error := task.exception()) is None:
            return
        if isinstance(error, StorageBroken):
            self.store.refuse(error.detail)
        else:
            logger.critical("%s.ended", task.get_name(), exc_info=error)
        self._on_fatal()
