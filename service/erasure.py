"""Erasure: samples go with every byte of theirs, and if asked the versions that saw them too."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from service.events import Feed, Happening
from service.jobs import enqueue
from service.logs import event
from service.trainer import Trainer
from service.training.errors import NoSamples
from storage.errors import NotFound, StateConflict
from storage.records import Job, JobState, Model
from storage.sample_filter import SampleFilter
from storage.store import Store

logger = logging.getLogger(__name__)

TRIGGER = "erasure"
ENDED = ("job.succeeded", "job.failed", "job.cancelled", "job.paused")


@dataclass(frozen=True, slots=True)
class Deletion:
    """What a deletion did. job: trains anew without the samples; when it succeeds, the versions
    that saw them go. versions: those that went at once."""

    deleted: int
    job: Job | None = None
    versions: tuple[int, ...] = ()


class Erasure:
    """Deletes samples, and forgets what was learned from them. Belongs to the event loop."""

    def __init__(self, store: Store, trainer: Trainer, feed: Feed) -> None:
        self._store = store
        self._trainer = trainer
        self._tasks: set[asyncio.Task[None]] = set()
        feed.listen(self._on_event)

    async def start(self) -> None:
        """Finish what the last run left."""
        await asyncio.to_thread(self._carry_out_all)

    async def stop(self) -> None:
        """Wait for what is under way."""
        if self._tasks:
            await asyncio.wait(set(self._tasks))

    async def delete(self, model: Model, where: SampleFilter, *, retrain: bool) -> Deletion:
        """Delete the samples that meet a filter; their bytes are gone when this returns.

        retrain: if a job has trained on one of them, stop those that still run, and train anew
        from the base model on what is left.
        """
        gone = await asyncio.to_thread(self._store.samples.delete_where, model.id, where)
        if not retrain or len(gone) == 0:
            return Deletion(len(gone))
        saw = await asyncio.to_thread(self._store.seen.jobs_that_saw, model.id, gone)
        for job_id in saw:
            await self._stop_job(job_id)
        if not saw:
            return Deletion(len(gone))
        return await asyncio.to_thread(self._retrain, model.name, gone)

    def tidy(self) -> None:
        """Overwrite what is deleted of models that are at rest. Blocking."""
        for model_id in self._store.eraser.pending_models():
            self._store.eraser.erase_at_rest(model_id)

    def _retrain(self, name: str, gone: NDArray[np.int64]) -> Deletion:
        model = self._store.models.get(name)
        try:
            job = enqueue(self._store, model, {}, trigger=TRIGGER, start="base")
        except NoSamples:
            versions = self._store.seen.forget_at_once(model.id, gone)
            return Deletion(len(gone), versions=tuple(versions))
        self._store.seen.forget_after(job.id, gone)
        self._carry_out_all()  # in case it was over before its wish was written
        return Deletion(len(gone), job)

    async def _stop_job(self, job_id: int) -> None:
        job = await asyncio.to_thread(self._store.jobs.get, job_id)
        if job.state in (JobState.RUNNING, JobState.PAUSED):
            try:
                await self._trainer.cancel(job_id)
            except StateConflict:
                return  # it ended by itself meanwhile

    def _on_event(self, happened: Happening) -> None:
        if happened.type in ENDED:
            task = asyncio.create_task(asyncio.to_thread(self._after_job, happened.data["job_id"]))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _after_job(self, job_id: int) -> None:
        try:
            job = self._store.jobs.get(job_id)
        except NotFound:
            return  # deleted with its model
        if job.state is JobState.SUCCEEDED:
            self._carry_out(job)
        self.tidy()

    def _carry_out_all(self) -> None:
        for job_id in self._store.seen.unfinished_wishes():
            self._carry_out(self._store.jobs.get(job_id))

    def _carry_out(self, job: Job) -> None:
        versions = self._store.seen.carry_out(job)
        if versions:
            event(
                logger, logging.INFO, "versions.forgotten", model=job.model, versions=len(versions)
            )
