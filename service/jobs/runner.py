"""The job runner: runs one job at a time, and survives whatever ends it."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from time import monotonic

from service import allocator
from service.jobs.run import JobRun
from service.logs import event
from storage.disk.durable import fault_behind
from storage.errors import (
    Busy,
    HoneError,
    NotFound,
    StateConflict,
    StorageBroken,
    StorageFull,
)
from storage.records.jobs import Blocker, Job, JobState
from storage.store import Store

logger = logging.getLogger(__name__)

SETTLE_TIMEOUT_S = 10.0
"""How long a request waits for a run to finish its step and stop."""
SHORTAGE_RETRY_S = 10.0
"""How long a job is held back that found no disk space, or no room for a process."""
END_RETRY_S = 1.0
"""Time between two attempts to write how a run ended."""


class JobRunner:
    """Runs a claimed job to its end; whatever goes wrong, it is ready for the next job.

    new_run: makes the run of a job. on_free: called when a run has ended.
    """

    def __init__(
        self,
        store: Store,
        *,
        new_run: Callable[[Job], JobRun],
        on_free: Callable[[], None],
    ) -> None:
        self._store = store
        self._new_run = new_run
        self._on_free = on_free
        self.run: JobRun | None = None
        """The current run, if any."""
        self._task: asyncio.Task[None] | None = None
        self._held_back: dict[int, tuple[float, Blocker]] = {}
        self._closing = asyncio.Event()

    def runs(self, job_id: int) -> bool:
        """Whether it is the job of the current run, and not cancelled."""
        run = self.run
        return run is not None and run.job.id == job_id and not run.cancelled.is_set()

    @property
    def has_ended(self) -> bool:
        """Whether `finish` would return at once, for a run that nobody has finished yet."""
        return self._task is not None and self._task.done()

    def start(self, job: Job) -> None:
        """Start training a job that was moved to `running`; no other job runs."""
        self.run = self._new_run(job)
        self._task = asyncio.create_task(self._carry_out(self.run))

    async def cancel(self, job_id: int) -> Job | None:
        """Cancel the job and wait until that is recorded; None if it is not the one training."""
        return await self._tell(job_id, JobRun.cancel)

    async def pause(self, job_id: int, reason: Blocker) -> Job | None:
        """Pause the job and wait until it stops; None if it is not the one training, or was already
        being paused for other reasons.
        """
        job = await self._tell(job_id, lambda run: run.pause(reason))
        if job is not None and job.state is JobState.PAUSED and reason not in job.blocked_by:
            return None
        return job

    async def settle(self, job_id: int) -> None:
        """Wait until the job's run has ended, if it was told to."""
        run, task = self.run, self._task
        if run is not None and run.job.id == job_id and run.is_ending and task is not None:
            await asyncio.wait({task}, timeout=SETTLE_TIMEOUT_S)

    def shortage_of(self, job_id: int) -> tuple[Blocker, ...]:
        """The shortage that holds a job back; empty once it may try again."""
        until_s, shortage = self._held_back.get(job_id, (0.0, None))
        return () if shortage is None or monotonic() >= until_s else (shortage,)

    def hold_back(self, job_id: int, shortage: Blocker) -> None:
        """Have a job wait for a while; `shortage_of` says why."""
        event(logger, logging.WARNING, "job.held_back", job=job_id, by=shortage.condition)
        now_s = monotonic()
        held = {job: entry for job, entry in self._held_back.items() if entry[0] > now_s}
        self._held_back = {**held, job_id: (now_s + SHORTAGE_RETRY_S, shortage)}
        asyncio.get_running_loop().call_later(SHORTAGE_RETRY_S, self._on_free)

    def close(self) -> None:
        """The daemon stops: no longer wait for disk space."""
        self._closing.set()

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
        run, task = self.run, self._task
        if run is None or task is None or not self.runs(job_id):
            return None
        # The run makes the change, not the request: the entry must not come after it.
        await asyncio.to_thread(self._store.audit.add_own)
        await command(run)
        cancelled = asyncio.ensure_future(run.cancelled.wait())
        await asyncio.wait(
            {task, cancelled}, timeout=SETTLE_TIMEOUT_S, return_when=asyncio.FIRST_COMPLETED
        )
        cancelled.cancel()
        return await asyncio.to_thread(self._store.jobs.get, job_id)

    async def _carry_out(self, run: JobRun) -> None:
        try:
            await run.train()
        except StorageBroken:
            raise
        except (StorageFull, Busy) as error:
            await self._hold_back(run, Blocker(error.code, error.detail))
        except HoneError as error:
            await self._fail(run, code=error.code, detail=error.detail)
        except Exception as error:  # a bug of ours must not end the scheduler
            fault = fault_behind(error, "the job stopped")
            if isinstance(fault, StorageBroken):
                raise fault from error
            if fault is not None:
                await self._hold_back(run, Blocker(fault.code, fault.detail))
                return
            logger.exception("job.crashed")
            await self._fail(run, code="internal", detail=repr(error))
        finally:
            self.run = None
            self._on_free()
            gc.collect()
            allocator.trim()

    async def _hold_back(self, run: JobRun, shortage: Blocker) -> None:
        """Pause a job that found no room, and hold it back for a while."""
        self.hold_back(run.job.id, shortage)
        await self._write_end(run, lambda: run.pause_for(shortage))

    async def _fail(self, run: JobRun, *, code: str, detail: str) -> None:
        event(logger, logging.ERROR, "job.failed", job=run.job.id, code=code)
        error = {"code": code, "detail": detail}
        move, job_id = self._store.jobs.move, run.job.id
        await self._write_end(
            run, lambda: move(job_id, JobState.RUNNING, JobState.FAILED, error=error)
        )

    async def _write_end(self, run: JobRun, write: Callable[[], object]) -> None:
        """Write how a run ended, as soon as there is disk space.

        If the daemon stops first, the row stays `running`, and the next daemon resumes the job.
        """
        while True:
            try:
                await asyncio.to_thread(write)
                return
            except (StateConflict, NotFound) as gone:
                event(logger, logging.ERROR, "job.not_marked", job=run.job.id, detail=gone.detail)
                return
            except (StorageFull, Busy) as error:
                event(logger, logging.WARNING, "job.end_waits", job=run.job.id, code=error.code)
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._closing.wait(), END_RETRY_S)
            if self._closing.is_set():
                return
