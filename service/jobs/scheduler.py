"""The scheduler: decides which job runs, and hands one at a time to the job runner."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from service.events import Feed
from service.jobs.preemption import Preemptor
from service.jobs.run import JobRun
from service.jobs.runner import JobRunner
from service.jobs.waiting import (
    ANOTHER_JOB,
    BY_PERSON,
    DAEMON_KILLED,
    DAEMON_STOPPED,
    behind_older,
    blockers_of,
    conditions_of,
    in_turn,
)
from service.logs import event
from service.policy.device_monitor import DeviceMonitor
from service.policy.observer import Observation
from service.processes.children import Children
from service.settings import Settings
from storage.database.transaction import Event, Happening
from storage.errors import Busy, NotFound, StateConflict, StorageFull
from storage.records.jobs import Blocker, Job, JobState, LogLine
from storage.store import Store

logger = logging.getLogger(__name__)

FRESH_S = 0.2
"""No job starts on an older reading of the device."""
FULL_RETRY_S = 5.0
"""After a write that found the disk full: how long until the next attempt."""
ENDED = frozenset({JobState.SUCCEEDED, JobState.FAILED, JobState.CANCELLED})


class Scheduler:
    """Lets waiting jobs train, one after the other, while the device monitor allows it."""

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        monitor: DeviceMonitor,
        children: Children,
        feed: Feed,
    ) -> None:
        self._store = store
        self._monitor = monitor
        self._wake = asyncio.Event()
        self._moving = asyncio.Lock()
        new_run = partial(
            JobRun,
            store=store,
            settings=settings,
            monitor=monitor,
            children=children,
            announce=feed.announce,
        )
        self._runner = JobRunner(store, new_run=new_run, on_free=self._wake.set)
        self._preemptor = Preemptor(self._runner, monitor)
        self._conditions: object = None
        self._behind: dict[int, Blocker] = {}
        self._stopping = False
        self._passes: list[asyncio.Event] = []
        feed.listen(self._on_event)
        monitor.listen(self._on_observation)

    async def run(self) -> None:
        """Resume interrupted jobs, then serve the queue until `stop`."""
        await asyncio.to_thread(self._take_up_interrupted)
        while not self._stopping:
            self._wake.clear()
            wanted, self._passes = self._passes, []
            await self._step_if_there_is_room()
            for end in wanted:
                end.set()
            await self._wake.wait()
        await self._pause_for_next_daemon()

    async def passed(self) -> None:
        """Return once the whole queue has been checked again."""
        happened = asyncio.Event()
        self._passes.append(happened)
        self._wake.set()
        await happened.wait()

    async def step(self) -> None:
        """Act on the verdict, then start a waiting job and note why the others wait."""
        if await self._preemptor.tell():
            self._expect(jobs_wait=True)
        if self._runner.has_ended:
            await self._runner.finish()
        async with self._moving:
            waiting = await asyncio.to_thread(self._store.jobs.waiting)
            self._expect(jobs_wait=bool(waiting))
            self._behind = behind_older(waiting)
            if not waiting:
                return
            observation = await self._monitor.observe(max_age_s=FRESH_S)
            last_starts = await asyncio.to_thread(self._store.jobs.last_starts, observation.at.wall)
            for job in in_turn(waiting, last_starts):
                await self._consider(job)

    def shown(self, job: Job) -> Job:
        """A job with its current blockers: its row has the conditions as of their last change, and
        none for a job held in memory. From any thread.
        """
        return replace(job, blocked_by=self._blockers(job))

    async def cancel(self, job_id: int) -> Job:
        """Cancel a job in any state. Raises StateConflict if it has already ended."""
        while True:
            job = await self._runner.cancel(job_id)
            if job is not None and job.state is not JobState.PAUSED:
                return _unless_over(job, but=JobState.CANCELLED)
            async with self._moving:
                # It may have started while we waited for the lock; then its run must be told.
                if not self._runner.runs(job_id):
                    job = await asyncio.to_thread(self._store.jobs.get, job_id)
                    return await asyncio.to_thread(
                        self._store.jobs.move, job_id, job.state, JobState.CANCELLED
                    )

    async def settle(self, job_id: int) -> None:
        """Wait until the process of a job that was told to stop is gone, and its files."""
        await self._runner.settle(job_id)

    async def pause(self, job_id: int) -> Job:
        """Save and stop a job until `resume`. Raises StateConflict unless it runs or is paused."""
        while True:
            job = await self._runner.pause(job_id, BY_PERSON)
            if job is not None:
                return _unless_over(job)
            async with self._moving:
                job = await asyncio.to_thread(self._store.jobs.get, job_id)
                if job.state is JobState.PAUSED:
                    held = (BY_PERSON,)
                    await asyncio.to_thread(self._store.jobs.report, job_id, blocked_by=held)
                    return replace(job, blocked_by=held)
                if not self._runner.runs(job_id):
                    raise StateConflict(
                        f"job {job_id} is {job.state.value}; only a running or paused one is held"
                    )

    async def resume(self, job_id: int, *, ignore_policy: bool = False) -> Job:
        """Resume a paused job. ignore_policy: despite the policy, from now on; this also applies to
        a queued or running job. Raises StateConflict if there is nothing to resume.
        """
        await self.settle(job_id)
        async with self._moving:
            job = await asyncio.to_thread(self._store.jobs.get, job_id)
            if job.state in ENDED or (job.state is not JobState.PAUSED and not ignore_policy):
                raise _not_resumed(job, ignore_policy=ignore_policy)
            changes: dict[str, Any] = {"ignore_policy": True} if ignore_policy else {}
            if job.state is JobState.PAUSED:
                changes["blocked_by"] = ()
            await asyncio.to_thread(self._store.jobs.report, job_id, **changes)
            run = self._runner.run
            if ignore_policy and run is not None and run.job.id == job_id:
                run.ignore_policy()
        self._wake.set()
        return self.shown(replace(job, **changes))

    def log(self, job_id: int) -> Sequence[LogLine]:
        """The last lines of the job's children. Blocking. Raises NotFound."""
        run = self._runner.run
        if run is not None and run.job.id == job_id:
            return run.log.shown()
        return self._store.jobs.log(self._store.jobs.get(job_id).id)

    async def rest(self) -> None:
        """Return once no job trains, after the verdict has changed."""
        async with self._moving:
            pass  # a job that was being claimed has started by now
        await self._runner.rest()

    def stop(self) -> None:
        """Make `run` return; it pauses the running job, which the next daemon resumes."""
        self._stopping = True
        self._wake.set()

    def _on_event(self, happened: Happening) -> None:
        if isinstance(happened, Event) and happened.type.startswith("job."):
            self._wake.set()

    def _on_observation(self, observation: Observation) -> None:
        """Wake only if something changes: this runs twice a second."""
        if self._preemptor.decide(observation) or observation.conditions != self._conditions:
            self._conditions = observation.conditions
            self._wake.set()

    def _expect(self, *, jobs_wait: bool) -> None:
        run = self._runner.run
        self._monitor.expect(trains=run is not None and not run.is_held, jobs_wait=jobs_wait)

    def _blockers(self, job: Job) -> tuple[Blocker, ...]:
        behind = filter(None, [self._behind.get(job.id)])
        kept_back = (*self._runner.shortage_of(job.id), *behind, *self._monitor.blockers(job))
        return blockers_of(job, self._runner.run, kept_back)

    async def _step_if_there_is_room(self) -> None:
        try:
            await self.step()
        except (Busy, StorageFull) as error:
            event(logger, logging.WARNING, "scheduler.waits", code=error.code, detail=error.detail)
            asyncio.get_running_loop().call_later(FULL_RETRY_S, self._wake.set)

    def _take_up_interrupted(self) -> None:
        for job in self._store.jobs.running():
            self._store.jobs.move(
                job.id, JobState.RUNNING, JobState.PAUSED, blocked_by=(DAEMON_KILLED,)
            )

    async def _consider(self, job: Job) -> None:
        blockers = self._blockers(job)
        try:
            if not blockers and self._runner.run is None:
                await self._claim(job)
                return
            if conditions_of(blockers) == [ANOTHER_JOB]:
                await self._preemptor.make_room()
            if conditions_of(blockers) != conditions_of(job.blocked_by):
                await asyncio.to_thread(self._store.jobs.report, job.id, blocked_by=blockers)
        except (StateConflict, NotFound):
            return  # deleted meanwhile, with its model
        except Busy as error:  # perhaps its samples are being deleted; others may begin
            self._runner.hold_back(job.id, Blocker(error.code, error.detail))
            self._wake.set()

    async def _claim(self, job: Job) -> None:
        running = await asyncio.to_thread(
            self._store.jobs.move, job.id, job.state, JobState.RUNNING, blocked_by=()
        )
        event(logger, logging.INFO, "job.started", job=job.id, model=job.model)
        self._preemptor.begin()
        self._runner.start(running)
        self._expect(jobs_wait=True)

    async def _pause_for_next_daemon(self) -> None:
        self._runner.close()
        run = self._runner.run
        if run is not None:
            await run.pause(DAEMON_STOPPED)
        await self._runner.finish()


def _unless_over(job: Job, *, but: JobState | None = None) -> Job:
    """The job. Raises StateConflict if it ended by itself before the command reached it."""
    if job.state in ENDED and job.state is not but:
        raise StateConflict(f"job {job.id} has ended meanwhile: it is {job.state.value}")
    return job


def _not_resumed(job: Job, *, ignore_policy: bool) -> StateConflict:
    possible = "one that has not ended runs now" if ignore_policy else "a paused job resumes"
    return StateConflict(f"job {job.id} is {job.state.value}; only {possible}")
