"""The job runner: carries out one job at a time, and survives whatever ends it."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable

from service import allocator
from service.events import Announce
from service.jobs.run import JobRun
from service.logs import event
from service.policy.device_monitor import DeviceMonitor
from service.processes.children import Children
from service.settings import Settings
from storage.errors import HoneError, NotFound, StateConflict, StorageBroken
from storage.records.jobs import Blocker, Job, JobState
from storage.store import Store

logger = logging.getLogger(__name__)

SETTLE_TIMEOUT_S = 10.0
"""How long an answer waits for the step to end after which a run stops."""


class JobRunner:
    """Takes a claimed job to the end of its run; whatever goes wrong, it is free for the next.

    announce: told of progress. on_free: called when a run has ended.
    """

    def __init__(
        self,
        store: Store,
        settings: Settings,
        *,
        monitor: DeviceMonitor,
        children: Children,
        announce: Announce,
        on_free: Callable[[], None],
    ) -> None:
        self._store = store
        self._settings = settings
        self._monitor = monitor
        self._children = children
        self._announce = announce
        self._on_free = on_free
        self._run: JobRun | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def run(self) -> JobRun | None:
        """What trains now."""
        return self._run

    @property
    def has_ended(self) -> bool:
        """Whether `finish` would return at once, for a run that nobody has finished yet."""
        return self._task is not None and self._task.done()

    def start(self, job: Job) -> None:
        """Begin to train a job that was moved to `running`; no other one runs."""
        self._run = JobRun(
            job,
            store=self._store,
            settings=self._settings,
            monitor=self._monitor,
            children=self._children,
            announce=self._announce,
        )
        self._task = asyncio.create_task(self._carry_out(self._run))

    async def cancel(self, job_id: int) -> Job | None:
        """Cancel the job, and wait for it to obey; None if another trains, or none."""
        return await self._tell(job_id, JobRun.cancel)

    async def pause(self, job_id: int, reason: Blocker) -> Job | None:
        """Pause the job, and wait for it to obey; None if another trains, or none."""
        return await self._tell(job_id, lambda run: run.pause(reason))

    async def settle(self, job_id: int) -> None:
        """Wait for the end of the job's run, if it was told to end."""
        run, task = self._run, self._task
        if run is not None and run.job.id == job_id and run.is_ending and task is not None:
            await asyncio.wait({task}, timeout=SETTLE_TIMEOUT_S)

    async def rest(self) -> None:
        """Return once nothing trains."""
        while self._task is not None and not self._task.done():
            await asyncio.wait({self._task})

    async def finish(self) -> None:
        """Wait for the end of the run, if there is one. Raises what ended it, if that is fatal."""
        task, self._task = self._task, None
        if task is not None:
            await task

    async def _tell(self, job_id: int, command: Callable[[JobRun], Awaitable[None]]) -> Job | None:
        run, task = self._run, self._task
        if run is None or run.job.id != job_id or task is None:
            return None
        await command(run)
        await asyncio.wait({task}, timeout=SETTLE_TIMEOUT_S)
        return await asyncio.to_thread(self._store.jobs.get, job_id)

    async def _carry_out(self, run: JobRun) -> None:
        try:
            await run.train()
        except StorageBroken:
            raise
        except HoneError as error:
            await asyncio.to_thread(self._fail, run.job, code=error.code, detail=error.detail)
        except Exception as error:  # a fault of ours must not end the scheduler
            logger.exception("job.crashed")
            await asyncio.to_thread(self._fail, run.job, code="internal", detail=repr(error))
        finally:
            self._run = None
            self._on_free()
            gc.collect()
            allocator.trim()

    def _fail(self, job: Job, *, code: str, detail: str) -> None:
        event(logger, logging.ERROR, "job.failed", job=job.id, code=code)
        error = {"code": code, "detail": detail}
        try:
            self._store.jobs.move(job.id, JobState.RUNNING, JobState.FAILED, error=error)
        except (StateConflict, NotFound) as gone:
            event(logger, logging.ERROR, "job.not_marked", job=job.id, detail=gone.detail)
