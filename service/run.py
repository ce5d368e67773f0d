"""One job on its way through the child: order, messages, commands, retries."""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from pathlib import Path

from service.child import Child
from service.errors import ChildDied
from service.events import Announce
from service.journal import Journal
from service.logs import event
from service.orders import train_order
from service.settings import Settings
from service.training.messages import (
    Cancel,
    Command,
    Done,
    Failed,
    Measured,
    Message,
    Pause,
    Progress,
    Saved,
    Started,
    Stopped,
)
from storage.records import Blocker, Job, JobState
from storage.store import Store

logger = logging.getLogger(__name__)

MAX_RESTARTS = 3


class Run:
    """Trains one running job to its end, or until it is told to pause or cancel."""

    def __init__(self, job: Job, *, store: Store, settings: Settings, announce: Announce) -> None:
        self.job = job
        self._store = store
        self._settings = settings
        self._journal = Journal(job, store, announce=announce)
        self._restarts = job.restarts
        self._wish: Command | None = None
        self._wished = asyncio.Event()
        self._pause_reason: tuple[Blocker, ...] = ()
        self._child: Child | None = None

    async def pause(self, reason: Blocker) -> None:
        """Ask for a checkpoint at the next step; the job is then paused for this reason."""
        self._pause_reason = (reason,)
        await self._ask(Pause())

    async def cancel(self) -> None:
        """Ask for the end; nothing more is saved."""
        await self._ask(Cancel())

    async def train(self) -> None:
        """Return when the job has left the state `running`."""
        while True:
            try:
                await self._attempt()
                return
            except ChildDied as death:
                event(logger, logging.WARNING, "child.died", job=self.job.id, detail=death.detail)
                if not await self._may_try_again():
                    await asyncio.to_thread(self._bury, death)
                    return

    async def _ask(self, command: Command) -> None:
        self._wish = command
        self._wished.set()
        if self._child is not None:
            await self._child.send(command)

    async def _attempt(self) -> None:
        work_dir = Path(tempfile.mkdtemp(prefix=f"job-{self.job.id}-", dir=self._store.tmp_dir))
        try:
            order = await asyncio.to_thread(
                train_order, self.job, self._store, self._settings, work_dir=work_dir
            )
            await self._converse(await Child.spawn(order, work_dir=work_dir))
        finally:
            await asyncio.to_thread(shutil.rmtree, work_dir)

    async def _converse(self, child: Child) -> None:
        self._child = child
        try:
            if self._wish is not None:
                await child.send(self._wish)
            silence_s = self._settings.heartbeat_timeout_s
            async for message in child.messages(silence_timeout_s=silence_s):
                await self._take(message)
        finally:
            self._child = None
            await child.close()

    async def _take(self, message: Message) -> None:
        journal = self._journal
        match message:
            case Started():
                journal.started(message)
            case Measured():
                journal.measured(message)
            case Progress():
                if journal.progressed(message):
                    await asyncio.to_thread(journal.report)
            case Saved():
                await asyncio.to_thread(journal.saved, message)
            case Done():
                await asyncio.to_thread(journal.succeeded, message)
            case Stopped():
                await asyncio.to_thread(self._settle)
            case Failed():
                error = {"code": message.code, "detail": message.detail}
                await asyncio.to_thread(journal.ended, JobState.FAILED, error=error)
            case _:
                raise ChildDied(f"the training child answered a job with {message.kind!r}")

    async def _may_try_again(self) -> bool:
        """Wait for the next try. False when none is left, or somebody wants the job to stop."""
        if self._wish is not None or self._restarts >= MAX_RESTARTS:
            return False
        delay_s = self._settings.retry_backoff_s * 2**self._restarts
        self._restarts += 1
        await asyncio.to_thread(self._store.jobs.report, self.job.id, restarts=self._restarts)
        try:
            await asyncio.wait_for(self._wished.wait(), delay_s)
        except asyncio.TimeoutError:
            return True
        return False

    def _settle(self) -> None:
        """End a job whose child is gone as the wish says."""
        if isinstance(self._wish, Cancel):
            self._journal.ended(JobState.CANCELLED)
        elif isinstance(self._wish, Pause):
            self._journal.ended(JobState.PAUSED, blocked_by=self._pause_reason)
        else:
            raise ChildDied("the training child stopped without being asked to")

    def _bury(self, death: ChildDied) -> None:
        if self._wish is not None:
            self._settle()
        else:
            error = {"code": death.code, "detail": death.detail}
            self._journal.ended(JobState.FAILED, error=error)
