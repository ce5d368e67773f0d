"""The trainer: the only one that executes jobs, one at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from service import allocator
from service.events import Announce
from service.logs import event
from service.run import Run
from service.settings import Settings
from storage.errors import HoneError, StateConflict, StorageBroken
from storage.records import Blocker, Event, Job, JobState
from storage.store import Store

logger = logging.getLogger(__name__)

PAUSED_BY_PERSON = "paused_by_person"
DAEMON_STOPPED = "daemon_stopped"
SETTLE_TIMEOUT_S = 10.0
"""How long an answer to pause or cancel waits for the step to end."""

Blockers = Callable[[Job], Sequence[Blocker]]


def nothing_blocks(_: Job) -> Sequence[Blocker]:
    """The policy of a device that may always train."""
    return ()


class Trainer:
    """Takes waiting jobs, oldest first, when the policy lets them run.

    policy: what keeps a job from running right now, empty when it may. announce: told of progress.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        announce: Announce,
        policy: Blockers = nothing_blocks,
    ) -> None:
        self._store = store
        self._settings = settings
        self._announce = announce
        self._policy = policy
        self._wake = asyncio.Event()
        self._run: Run | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopping = False

    async def run(self) -> None:
        """Take up what was interrupted, then serve the queue until `stop`."""
        loop = asyncio.get_running_loop()

        def on_event(happened: Event) -> None:
            if happened.type.startswith("job."):
                loop.call_soon_threadsafe(self._wake.set)

        self._store.events.subscribe(on_event)
        try:
            for job in await asyncio.to_thread(self._store.jobs.running):
                await self._finish_task()
                self._begin(job)
            while not self._stopping:
                self._wake.clear()
                await self.step()
                await self._wake.wait()
            await self._pause_for_next_daemon()
        finally:
            self._store.events.unsubscribe(on_event)

    async def step(self) -> None:
        """Look at every waiting job once: start one, and tell the others why they wait."""
        if self._task is not None and self._task.done():
            await self._finish_task()
        for job in await asyncio.to_thread(self._store.jobs.waiting):
            blockers = self._blockers(job)
            if not blockers:
                await self._claim(job)
            elif blockers != job.blocked_by:
                await asyncio.to_thread(self._store.jobs.report, job.id, blocked_by=blockers)

    async def cancel(self, job_id: int) -> Job:
        """End a job, whatever it does. Raises StateConflict if it has ended already."""
        return await self._leave(job_id, JobState.CANCELLED)

    async def pause(self, job_id: int) -> Job:
        """Save and stop a running job until `resume`. Raises StateConflict otherwise."""
        return await self._leave(job_id, JobState.PAUSED)

    async def resume(self, job_id: int) -> Job:
        """Let a paused job go on. Raises StateConflict if it is not paused."""
        job = await asyncio.to_thread(self._store.jobs.get, job_id)
        if job.state is not JobState.PAUSED:
            raise StateConflict(f"job {job_id} is {job.state.value}; only a paused job resumes")
        await asyncio.to_thread(self._store.jobs.report, job_id, blocked_by=())
        self._wake.set()
        return replace(job, blocked_by=())

    def stop(self) -> None:
        """Let `run` pause the running job, so that the next daemon takes it up, and return."""
        self._stopping = True
        self._wake.set()

    def _blockers(self, job: Job) -> tuple[Blocker, ...]:
        held = tuple(b for b in job.blocked_by if b.condition == PAUSED_BY_PERSON)
        if held:
            return held
        if self._run is not None:
            other = self._run.job
            detail = f"job {other.id} of model {other.model!r} is training"
            return (Blocker("another_job", detail),)
        return () if job.ignore_policy else tuple(self._policy(job))

    async def _claim(self, job: Job) -> None:
        try:
            running = await asyncio.to_thread(
                self._store.jobs.move, job.id, job.state, JobState.RUNNING, blocked_by=()
            )
        except StateConflict:
            return  # cancelled in the meantime
        self._begin(running)

    def _begin(self, job: Job) -> None:
        event(logger, logging.INFO, "job.started", job=job.id, model=job.model)
        self._run = Run(job, store=self._store, settings=self._settings, announce=self._announce)
        self._task = asyncio.create_task(self._carry_out(self._run))

    async def _carry_out(self, run: Run) -> None:
        try:
            await run.train()
        except StorageBroken:
            raise
        except HoneError as error:
            await asyncio.to_thread(self._fail, run.job, code=error.code, detail=error.detail)
        except Exception as error:  # the scheduler's door: a fault of ours must not end the trainer
            logger.exception("job.crashed")
            await asyncio.to_thread(self._fail, run.job, code="internal", detail=repr(error))
        finally:
            self._run = None
            self._wake.set()
            allocator.trim()

    def _fail(self, job: Job, *, code: str, detail: str) -> None:
        event(logger, logging.ERROR, "job.failed", job=job.id, code=code)
        error = {"code": code, "detail": detail}
        self._store.jobs.move(job.id, JobState.RUNNING, JobState.FAILED, error=error)

    async def _pause_for_next_daemon(self) -> None:
        if self._run is not None:
            detail = "the daemon was stopped; the job goes on when it is back"
            await self._run.pause(Blocker(DAEMON_STOPPED, detail))
        await self._finish_task()

    async def _finish_task(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            await task

    async def _leave(self, job_id: int, to: JobState) -> Job:
        run = self._run
        if run is not None and run.job.id == job_id and self._task is not None:
            if to is JobState.CANCELLED:
                await run.cancel()
            else:
                await run.pause(Blocker(PAUSED_BY_PERSON, "paused by a person; resume it to go on"))
            await asyncio.wait({self._task}, timeout=SETTLE_TIMEOUT_S)
            return await asyncio.to_thread(self._store.jobs.get, job_id)
        job = await asyncio.to_thread(self._store.jobs.get, job_id)
        return await asyncio.to_thread(self._store.jobs.move, job_id, job.state, to)
