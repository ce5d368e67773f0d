"""One run of a job: the task for the child, its messages, commands, retries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable

from msgspec.structs import replace

from service.errors import ChildDied
from service.events import Announce
from service.jobs.child import Child
from service.jobs.log import JobLog
from service.jobs.publication import Answer, Publication
from service.jobs.recorder import Recorder
from service.jobs.tasks import train_task
from service.logs import event
from service.policy.device_monitor import DeviceMonitor
from service.processes.children import Children, work_folder
from service.settings import Settings
from service.training.protocol.messages.commands import Cancel, Continue, Hold, Pause
from service.training.protocol.messages.comparison import Evaluate, Evaluated
from service.training.protocol.messages.shared import Failed, Stopped, Working
from service.training.protocol.messages.training import (
    Chosen,
    Decoded,
    Done,
    Dropped,
    Measured,
    Progress,
    Quarantined,
    Saved,
    Seen,
    Started,
    Updated,
)
from service.training.protocol.messages.unions import Command, Message, Task
from storage.errors import StorageBroken
from storage.records.federation import ROUND
from storage.records.jobs import Blocker, Job, JobState
from storage.store import Store

logger = logging.getLogger(__name__)

MAX_RESTARTS = 3


class JobRun:
    """Runs one job to its end, or until it is told to pause or cancel."""

    def __init__(
        self,
        job: Job,
        *,
        store: Store,
        settings: Settings,
        monitor: DeviceMonitor,
        children: Children,
        announce: Announce,
    ) -> None:
        self.job = job
        self._store = store
        self._settings = settings
        self._monitor = monitor
        self._children = children
        self._recorder = Recorder(job, store, announce=announce)
        self.log = JobLog(job.id, store)
        self._restarts = job.restarts
        self._wish: Command | None = None
        self._wished = asyncio.Event()
        self._pause_reasons: tuple[Blocker, ...] = ()
        self.paused_for: tuple[Blocker, ...] = ()
        self._is_held = False
        self._child: Child | None = None
        self._done: Done | Updated | None = None
        self._answer: Answer | None = None
        self.cancelled = asyncio.Event()
        """Set once the job is recorded as cancelled; its child may still be ending."""

    @property
    def is_held(self) -> bool:
        """Whether the child waits in memory."""
        return self._is_held

    @property
    def is_ending(self) -> bool:
        """Whether it was told to pause or cancel."""
        return self._wish is not None

    async def pause(self, *reasons: Blocker) -> None:
        """Ask for a checkpoint at the next step; the job is then paused for these reasons.

        Earlier reasons stay. A job that is being cancelled is not paused any more.
        """
        known = {reason.condition for reason in self._pause_reasons}
        self._pause_reasons += tuple(each for each in reasons if each.condition not in known)
        if not isinstance(self._wish, Cancel):
            await self._wish_for(Pause())

    async def hold(self, *reasons: Blocker) -> None:
        """Make the child save and wait in memory; without a child, `pause`."""
        if self._child is None:
            await self.pause(*reasons)
            return
        self._is_held = True
        await self._send(Hold())

    async def go_on(self) -> None:
        """Let a held child continue."""
        self._is_held = False
        await self._send(Continue())

    def ignore_policy(self) -> None:
        """From now on the policy does not block the job."""
        self.job = replace(self.job, ignore_policy=True)

    async def cancel(self) -> None:
        """Ask the child to stop; nothing more is saved."""
        await self._wish_for(Cancel())

    async def train(self) -> None:
        """Return when the job has left the state `running`."""
        await asyncio.to_thread(self.log.load)
        while True:
            try:
                await self._attempt()
                return
            except ChildDied as death:
                self.log.ended(death)
                await asyncio.to_thread(self.log.save)
                if not isinstance(self._wish, Cancel):
                    detail = death.detail
                    event(logger, logging.WARNING, "child.died", job=self.job.id, detail=detail)
                if not await self._may_try_again():
                    await asyncio.to_thread(self._give_up, death)
                    return

    async def _wish_for(self, command: Command) -> None:
        self._wish = command
        self._wished.set()
        await self._send(command)

    async def _send(self, command: Command) -> None:
        if self._child is not None:
            await self._child.send(command)
            if isinstance(command, Cancel) and self.job.start == ROUND:
                self._child.kill_soon()  # even in mid-step: nothing of a round is kept

    async def _attempt(self) -> None:
        async with work_folder(f"job-{self.job.id}", parent=self._store.tmp_dir) as work_dir:
            task = await asyncio.to_thread(
                train_task,
                self.job,
                self._store,
                self._settings,
                limits=await self._monitor.limits(),
                work_dir=work_dir,
            )
            self._done = None
            await self._converse(await self._spawn(task), self._take)
            if isinstance(self._done, Updated):
                await asyncio.to_thread(self._recorder.updated, self._done)
            elif self._done is not None:
                publication = Publication(
                    self.job,
                    self._store,
                    self._recorder,
                    limits=self._monitor.limits,
                    ask=self._ask,
                )
                await publication.conclude(self._done)

    async def _ask(self, task: Evaluate) -> Answer | None:
        """The answer of a separate child, None if it was stopped."""
        self._answer = None
        await self._converse(await self._spawn(task), self._take_answer)
        return self._answer

    async def _spawn(self, task: Task) -> Child:
        return await Child.spawn(self._children, task, on_stderr=self.log.take)

    async def _converse(self, child: Child, take: Callable[[Message], Awaitable[None]]) -> None:
        self._child = child
        try:
            if self._is_held:
                await child.send(Hold())
            if self._wish is not None:
                await self._send(self._wish)
            async for message in self._heard(child):
                await take(message)
        finally:
            self._child = None
            await child.close()
            await asyncio.to_thread(self.log.save)

    async def _heard(self, child: Child) -> AsyncIterator[Message]:
        """The child's messages. StorageBroken becomes ChildDied: the next child may succeed."""
        silence_s = self._settings.heartbeat_timeout_s
        try:
            async for message in child.messages(silence_timeout_s=silence_s):
                yield message
        except StorageBroken as fault:
            raise ChildDied(fault.detail) from fault

    async def _take(self, message: Message) -> None:
        recorder = self._recorder
        match message:
            case Started():
                recorder.started(message)
                self.log.began(message)
            case Chosen() | Seen() | Quarantined() | Dropped() | Decoded() | Working():
                await asyncio.to_thread(recorder.noted, message)
            case Measured():
                recorder.measured(message)
            case Progress():
                if recorder.progressed(message):
                    await asyncio.to_thread(self._report)
            case Saved():
                await asyncio.to_thread(recorder.saved, message)
            case Done() | Updated():
                self._done = message
            case Stopped():
                await self._stopped()
            case Failed():
                await self._failed(message)
            case _:
                raise ChildDied(f"the training child answered a job with {message.kind!r}")

    def _report(self) -> None:
        self.log.save()
        self._recorder.report()

    async def _failed(self, message: Failed) -> None:
        error = {"code": message.code, "detail": message.detail}
        self.log.note(message.detail)
        await asyncio.to_thread(self.log.save)
        await asyncio.to_thread(self._recorder.ended, JobState.FAILED, error=error)

    async def _stopped(self) -> None:
        await asyncio.to_thread(self._settle)
        if isinstance(self._wish, Cancel):
            self.cancelled.set()

    async def _take_answer(self, message: Message) -> None:
        match message:
            case Working():
                pass
            case Evaluated() | Failed():
                self._answer = message
            case Stopped():
                await self._stopped()
            case _:
                raise ChildDied(f"the training child answered a question with {message.kind!r}")

    async def _may_try_again(self) -> bool:
        """Wait before the next attempt. False if none is left, or the job must stop or was held."""
        if self._wish is not None or self._is_held or self._restarts >= MAX_RESTARTS:
            return False
        delay_s = self._settings.retry_backoff_s * 2**self._restarts
        self._restarts += 1
        await asyncio.to_thread(self._store.jobs.report, self.job.id, restarts=self._restarts)
        try:
            await asyncio.wait_for(self._wished.wait(), delay_s)
        except asyncio.TimeoutError:
            return True
        return False

    def pause_for(self, shortage: Blocker) -> None:
        """Pause a job that could not continue, unless it was told to stop anyway. Blocking."""
        if self._wish is None:
            self._pause_reasons = (shortage,)
            self._wish = Pause()
        self._settle()

    def _settle(self) -> None:
        """Record how a job ended that was told to stop and whose child is gone."""
        if isinstance(self._wish, Cancel):
            self._recorder.ended(JobState.CANCELLED)
        elif isinstance(self._wish, Pause):
            self._recorder.ended(JobState.PAUSED, blocked_by=self._pause_reasons)
            self.paused_for = self._pause_reasons
        else:
            raise ChildDied("the training child stopped without being asked to")

    def _give_up(self, death: ChildDied) -> None:
        if self._wish is not None:
            self._settle()
        elif self._is_held:
            self._recorder.ended(JobState.PAUSED, blocked_by=self._monitor.blockers(self.job))
        else:
            error = {"code": death.code, "detail": death.detail}
            self._recorder.ended(JobState.FAILED, error=error)
