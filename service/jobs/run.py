"""One run of a job: a child that trains, children that compare, commands to them, retries."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Generator, Mapping
from enum import Enum

from msgspec.structs import replace

from service.errors import ChildDied
from service.events import Announce
from service.jobs.child import Child
from service.jobs.log import JobLog
from service.jobs.publication import Answer, Publication
from service.jobs.recorder import Recorder
from service.jobs.training_tasks import train_task
from service.logs import event
from service.policy.device_monitor import DeviceMonitor
from service.processes.children import Children, work_folder
from service.settings import Settings
from service.training.protocol.messages.comparison import Evaluate
from service.training.protocol.messages.shared import Cancel, Continue, Failed, Hold, Pause, Stopped
from service.training.protocol.messages.training import (
    Done,
    Measured,
    Progress,
    Saved,
    Started,
    Train,
    Updated,
)
from service.training.protocol.messages.unions import Command, Message, Noted
from storage.errors import StorageBroken
from storage.records.federation import ROUND
from storage.records.jobs import Blocker, Job, JobState
from storage.store import Store

logger = logging.getLogger(__name__)

MAX_RESTARTS = 3


class RunState(Enum):
    """What a run does. Once it has ended, its state is its job's."""

    TRAINING = "training"
    """The child trains, or compares what was trained."""
    HELD = "held"
    """The child waits in memory."""
    PAUSING = "pausing"
    CANCELLING = "cancelling"


State = RunState | JobState
TRAINING, HELD, PAUSING, CANCELLING = RunState
NEXT: Mapping[type, Mapping[State, State]] = {
    Hold: {TRAINING: HELD},
    Continue: {HELD: TRAINING},
    Pause: {TRAINING: PAUSING, HELD: PAUSING},
    Cancel: {TRAINING: CANCELLING, HELD: CANCELLING, PAUSING: CANCELLING},
    Stopped: {PAUSING: JobState.PAUSED, CANCELLING: JobState.CANCELLED},
    ChildDied: {
        TRAINING: JobState.FAILED,
        HELD: JobState.PAUSED,
        PAUSING: JobState.PAUSED,
        CANCELLING: JobState.CANCELLED,
    },
    Blocker: {
        TRAINING: JobState.PAUSED,
        HELD: JobState.PAUSED,
        PAUSING: JobState.PAUSED,
        CANCELLING: JobState.CANCELLED,
    },
    Failed: dict.fromkeys(RunState, JobState.FAILED),
    Done: dict.fromkeys(RunState, JobState.SUCCEEDED),
    Updated: dict.fromkeys(RunState, JobState.SUCCEEDED),
}
"""By what happens and the state before it: the state after it; nothing else happens in a state.

A command; a child's last message; the death of a child after which no other is tried; a shortage
on the device.
"""
FIRST_COMMANDS: Mapping[State, Command] = {HELD: Hold(), PAUSING: Pause(), CANCELLING: Cancel()}
"""What a child is sent when it starts, because it was not there when the command came."""


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
        self._publication = Publication(job, store, self._recorder)
        self.log = JobLog(job.id, store)
        self._restarts = job.restarts
        self._state: State = TRAINING
        self._pause_reasons: tuple[Blocker, ...] = ()
        self._child: Child | None = None
        self._ending = asyncio.Event()
        self.cancelled = asyncio.Event()
        """Set once the job is recorded as cancelled; its child may still be ending."""

    @property
    def is_held(self) -> bool:
        """Whether the child waits in memory."""
        return self._state is HELD

    @property
    def is_ending(self) -> bool:
        """Whether it was told to pause or cancel, or has ended."""
        return self._state not in (TRAINING, HELD)

    async def pause(self, *reasons: Blocker) -> None:
        """Ask for a checkpoint at the next step; the job is then paused for these reasons.

        Earlier reasons stay. A job that is being cancelled is not paused any more.
        """
        known = {reason.condition for reason in self._pause_reasons}
        self._pause_reasons += tuple(reason for reason in reasons if reason.condition not in known)
        await self._obey(Pause())

    async def hold(self, *reasons: Blocker) -> None:
        """Make the child save and wait in memory; without a child, `pause`."""
        if self._child is None:
            await self.pause(*reasons)
        else:
            await self._obey(Hold())

    async def go_on(self) -> None:
        """Let a held child continue."""
        await self._obey(Continue())

    async def cancel(self) -> None:
        """Ask the child to stop; nothing more is saved."""
        await self._obey(Cancel())

    def pause_for(self, shortage: Blocker) -> None:
        """Pause a job that could not continue, unless it was told to stop anyway. Blocking."""
        self._pause_reasons = self._pause_reasons or (shortage,)
        if isinstance(self._state, RunState):
            self._end(shortage)

    def ignore_policy(self) -> None:
        """From now on the policy does not block the job."""
        self.job = replace(self.job, ignore_policy=True)

    async def train(self) -> None:
        """Return when the job has left the state `running`."""
        await asyncio.to_thread(self.log.load)
        while isinstance(self._state, RunState):
            try:
                await self._attempt()
            except ChildDied as death:
                self.log.ended(death)
                await asyncio.to_thread(self.log.save)
                if self._state is not CANCELLING:
                    detail = death.detail
                    event(logger, logging.WARNING, "child.died", job=self.job.id, detail=detail)
                if not await self._may_try_again():
                    await asyncio.to_thread(self._end, death)

    async def _obey(self, command: Command) -> None:
        moves = NEXT[type(command)]
        if self._state not in moves:
            return
        self._state = moves[self._state]
        if self.is_ending:
            self._ending.set()
        await self._send(command)

    async def _send(self, command: Command) -> None:
        if self._child is not None:
            await self._child.send(command)
            if isinstance(command, Cancel) and self.job.start == ROUND:
                self._child.kill_soon()  # even in mid-step: nothing of a round is kept

    async def _attempt(self) -> None:
        """Train and publish. Raises ChildDied."""
        async with work_folder(f"job-{self.job.id}", parent=self._store.tmp_dir) as work_dir:
            task = await asyncio.to_thread(
                train_task, self.job, self._store, self._settings, work_dir=work_dir
            )
            match await self._carry_out(task):
                case Done() as done:
                    await self._publish(done)
                case Updated() as update:
                    await asyncio.to_thread(self._publication.publish_update, update)
                    self._state = NEXT[Updated][self._state]
                case Failed() as failure:
                    self.log.note(failure.detail)
                    await asyncio.to_thread(self.log.save)
                    await asyncio.to_thread(self._end, failure)
                case Stopped():
                    return
                case other:
                    raise ChildDied(f"the training child answered a job with {other.kind!r}")

    async def _publish(self, done: Done) -> None:
        """Publish what was trained, after the comparisons, each made by a child."""
        comparisons = self._publication.publish(done)
        task = await asyncio.to_thread(next, comparisons, None)
        while task is not None:
            answer = await self._carry_out(task)
            if isinstance(answer, Stopped):
                return
            if not isinstance(answer, Answer):
                raise ChildDied(f"the training child answered a question with {answer.kind!r}")
            task = await asyncio.to_thread(_next_of, comparisons, answer)
        self._state = NEXT[Done][self._state]

    async def _carry_out(self, task: Train | Evaluate) -> Message:
        """The last message of a child; what it says before is recorded, and that it has stopped."""
        task = replace(task, limits=await self._monitor.limits())
        self._child = child = await Child.spawn(self._children, task, on_stderr=self.log.take)
        try:
            if self._state in FIRST_COMMANDS:
                await self._send(FIRST_COMMANDS[self._state])
            async for message in self._heard(child):
                await self._take(message)
            return message
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
            case Measured():
                recorder.measured(message)
            case Progress():
                if recorder.progressed(message):
                    await asyncio.to_thread(self._report)
            case Saved():
                await asyncio.to_thread(recorder.saved, message)
            case Stopped():
                await asyncio.to_thread(self._end, message)
                if self._state is JobState.CANCELLED:
                    self.cancelled.set()
            case _ if isinstance(message, Noted):
                await asyncio.to_thread(recorder.noted, message)

    def _report(self) -> None:
        self.log.save()
        self._recorder.report()

    async def _may_try_again(self) -> bool:
        """Wait before the next attempt. False if none is left, or the job must stop or was held."""
        if self._state is not TRAINING or self._restarts >= MAX_RESTARTS:
            return False
        delay_s = self._settings.retry_backoff_s * 2**self._restarts
        self._restarts += 1
        await asyncio.to_thread(self._store.jobs.report, self.job.id, restarts=self._restarts)
        try:
            await asyncio.wait_for(self._ending.wait(), delay_s)
        except asyncio.TimeoutError:
            return True
        return False

    def _end(self, cause: Stopped | Failed | ChildDied | Blocker) -> None:
        """Record how the job ended. Raises ChildDied if its child stopped without being told to."""
        to = NEXT[type(cause)].get(self._state)
        if not isinstance(to, JobState):
            raise ChildDied("the training child stopped without being asked to")
        if isinstance(cause, Failed | ChildDied) and to is JobState.FAILED:
            error = {"code": cause.code, "detail": cause.detail}
            self._recorder.ended(to, error=error)
        elif to is JobState.PAUSED:
            reasons = self._pause_reasons or self._monitor.blockers(self.job)
            self._recorder.ended(to, blocked_by=reasons)
        else:
            self._recorder.ended(to)
        self._state = to


def _next_of(comparisons: Generator[Evaluate, Answer, None], answer: Answer) -> Evaluate | None:
    """The task after the answer to the last one, None once the version is published."""
    try:
        return comparisons.send(answer)
    except StopIteration:
        return None
