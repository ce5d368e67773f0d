"""One job on its way through the child: order, messages, commands, retries."""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

from service.child import Child
from service.errors import ChildDied
from service.events import Announce
from service.journal import Journal
from service.logs import event
from service.orders import evaluate_order, train_order
from service.promotion.conclusion import conclude
from service.promotion.policy import gate_policy
from service.settings import Settings
from service.training.messages import (
    Cancel,
    Command,
    Comparison,
    Continue,
    Decoded,
    Done,
    Evaluate,
    Evaluated,
    Failed,
    Hold,
    Limits,
    Measured,
    Message,
    Pause,
    Progress,
    Quarantined,
    Saved,
    Seen,
    Started,
    Stopped,
    Working,
)
from storage.records import Blocker, FileRecord, Job, JobState
from storage.store import Store

logger = logging.getLogger(__name__)

MAX_RESTARTS = 3
ON_NOTHING = Comparison(samples=0, class_counts=(), candidate={}, baseline={})
"""What comparing without a sample finds."""
MAX_COMPARISONS = 5
"""How often a model is compared anew because `latest` moved."""


class Run:
    """Trains one running job to its end, or until it is told to pause or cancel."""

    def __init__(
        self,
        job: Job,
        *,
        store: Store,
        settings: Settings,
        announce: Announce,
        limits: Callable[[], Awaitable[Limits]],
    ) -> None:
        self.job = job
        self._store = store
        self._settings = settings
        self._limits = limits
        self._journal = Journal(job, store, announce=announce)
        self._restarts = job.restarts
        self._wish: Command | None = None
        self._wished = asyncio.Event()
        self._pause_reasons: tuple[Blocker, ...] = ()
        self._is_held = False
        self._child: Child | None = None
        self._done: Done | None = None
        self._answer: Evaluated | Failed | None = None

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
            await self._ask(Pause())

    async def hold(self, *reasons: Blocker) -> None:
        """Let the child wait in memory, without stepping."""
        self._is_held = True
        await self._send(Hold())
        await asyncio.to_thread(self._store.jobs.report, self.job.id, blocked_by=reasons)

    async def go_on(self) -> None:
        """Let a child that was held step again."""
        self._is_held = False
        await self._send(Continue())
        await asyncio.to_thread(self._store.jobs.report, self.job.id, blocked_by=())

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
        await self._send(command)

    async def _send(self, command: Command) -> None:
        if self._child is not None:
            await self._child.send(command)

    async def _attempt(self) -> None:
        work_dir = Path(tempfile.mkdtemp(prefix=f"job-{self.job.id}-", dir=self._store.tmp_dir))
        try:
            order = await asyncio.to_thread(
                train_order,
                self.job,
                self._store,
                self._settings,
                limits=await self._limits(),
                work_dir=work_dir,
            )
            self._done = None
            await self._converse(await Child.spawn(order, work_dir=work_dir), self._take)
            if self._done is not None:
                await self._conclude(self._done, work_dir)
        finally:
            await asyncio.to_thread(shutil.rmtree, work_dir)

    async def _conclude(self, done: Done, work_dir: Path) -> None:
        """Let the gate decide on the exported model, and publish it.

        Once more if a person moves `latest` meanwhile: then it was compared with another version.
        """
        candidate: Path | FileRecord = Path(done.path)
        for _ in range(MAX_COMPARISONS):
            answer, compared_with = await self._compare(candidate, work_dir)
            if answer is None:
                return
            if isinstance(candidate, Path):
                candidate = await asyncio.to_thread(self._store.files.adopt, candidate)
            if await self._publish(done, candidate, answer, compared_with):
                return
        assert isinstance(candidate, FileRecord)
        moving = Failed("state_conflict", "latest was moved each time while it was compared")
        await self._publish(done, candidate, moving, None)

    async def _compare(
        self, candidate: Path | FileRecord, work_dir: Path
    ) -> tuple[Evaluated | Failed | None, int]:
        """What the child finds, None if it was stopped, and the version that `latest` named."""
        path = (
            candidate if isinstance(candidate, Path) else self._store.files.path(candidate.sha256)
        )
        limits = await self._limits()
        order, compared_with = await asyncio.to_thread(
            evaluate_order, self.job, self._store, candidate=path, limits=limits
        )
        if not await asyncio.to_thread(self._can_measure, order):
            return Evaluated(ON_NOTHING), compared_with
        self._answer = None
        await self._converse(await Child.spawn(order, work_dir=work_dir), self._take_verdict)
        return self._answer, compared_with

    def _can_measure(self, order: Evaluate) -> bool:
        """Whether there is any sample to compare on; else a second child would find out nothing."""
        counts = self._store.samples.counts(self.job.model_id)
        return order.measurement.reference or counts.validation > 0

    async def _publish(
        self, done: Done, file: FileRecord, answer: Evaluated | Failed, compared_with: int | None
    ) -> bool:
        model = await asyncio.to_thread(self._store.models.get_by_id, self.job.model_id)
        conclusion = conclude(gate_policy(model), answer, compared_with=compared_with)
        return await asyncio.to_thread(self._journal.succeeded, done, file, conclusion)

    async def _converse(self, child: Child, take: Callable[[Message], Awaitable[None]]) -> None:
        self._child = child
        try:
            if self._is_held:
                await child.send(Hold())
            if self._wish is not None:
                await child.send(self._wish)
            silence_s = self._settings.heartbeat_timeout_s
            async for message in child.messages(silence_timeout_s=silence_s):
                await take(message)
        finally:
            self._child = None
            await child.close()

    async def _take(self, message: Message) -> None:
        journal = self._journal
        match message:
            case Started():
                journal.started(message)
            case Seen() | Quarantined() | Decoded() | Working():
                await asyncio.to_thread(journal.noted, message)
            case Measured():
                journal.measured(message)
            case Progress():
                if journal.progressed(message):
                    await asyncio.to_thread(journal.report)
            case Saved():
                await asyncio.to_thread(journal.saved, message)
            case Done():
                self._done = message
            case Stopped():
                await asyncio.to_thread(self._settle)
            case Failed():
                error = {"code": message.code, "detail": message.detail}
                await asyncio.to_thread(journal.ended, JobState.FAILED, error=error)
            case _:
                raise ChildDied(f"the training child answered a job with {message.kind!r}")

    async def _take_verdict(self, message: Message) -> None:
        match message:
            case Working():
                pass
            case Evaluated() | Failed():
                self._answer = message
            case Stopped():
                await asyncio.to_thread(self._settle)
            case _:
                raise ChildDied(f"the training child answered a question with {message.kind!r}")

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
            self._journal.ended(JobState.PAUSED, blocked_by=self._pause_reasons)
        else:
            raise ChildDied("the training child stopped without being asked to")

    def _bury(self, death: ChildDied) -> None:
        if self._wish is not None:
            self._settle()
        else:
            error = {"code": death.code, "detail": death.detail}
            self._journal.ended(JobState.FAILED, error=error)
