"""Erasure: deletes samples with all their bytes and, if asked, the versions trained on them.

The base model is then trained again on the samples that are left.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import numpy as np

from service.background import BackgroundTasks
from service.events import Feed
from service.jobs.enqueue import random_seed
from service.jobs.scheduler import Scheduler
from service.models.hyperparameters import merge
from service.preprocess.fitting import learn_without
from storage.arrays import NDArray
from storage.database.transaction import Happening
from storage.erasure.unlearning import Deletion
from storage.errors import InUse, NotFound, StateConflict
from storage.records.jobs import Job, NewJob
from storage.records.models import Model
from storage.records.versions import Version
from storage.samples.filter import SampleFilter
from storage.store import Store

TRIGGER = "erasure"
BY_CLASS = ("class_weights", "ignore_index")
"""Hyperparameters that depend on the classes."""


def retraining(store: Store, model: Model, gone: NDArray[np.int64]) -> NewJob:
    """A job with the hyperparameters of the longest job that led to `latest`.

    Longest: by optimizer steps, the newest of equals. These are the job that made `latest`, the job
    that made the version it started from, and so on. If `latest` is the base model, the jobs that
    saw the deleted samples are taken instead.
    """
    jobs = list(_behind(store, store.versions.by_alias(model.id, "latest")))
    if not jobs:
        jobs = [store.jobs.get(job_id) for job_id in store.lineage.jobs_that_saw(model.id, gone)]
    longest = max(jobs, key=lambda job: (job.progress.get("step", 0), job.id), default=None)
    asked = {} if longest is None else _for_classes_of(model, longest, store)
    return NewJob(
        model_id=model.id,
        trigger=TRIGGER,
        hyperparameters=merge(model, asked, seed=random_seed()),
        start="base",
        class_ids=model.signature.target.ids,
    )


def _for_classes_of(model: Model, job: Job, store: Store) -> dict[str, Any]:
    """A job's hyperparameters, without those by class if the classes may have changed since."""
    target = model.signature.target
    if target.class_ids is None or _classes_made_by(job, store) == target.ids:
        return job.hyperparameters
    return {name: value for name, value in job.hyperparameters.items() if name not in BY_CLASS}


def _classes_made_by(job: Job, store: Store) -> tuple[int, ...] | None:
    """The class ids of a job's version, None if it is not kept."""
    if job.version is None:
        return None
    try:
        return store.versions.get(job.model_id, job.version).target.ids
    except NotFound:
        return None


def _behind(store: Store, version: Version) -> Iterator[Job]:
    """The jobs that led to a version, newest first, as far back as versions are kept."""
    while version.job_id is not None:
        yield store.jobs.get(version.job_id)
        parent = version.provenance.get("parent_version")
        if parent is None:
            return
        try:
            version = store.versions.get(version.model_id, parent)
        except NotFound:
            return


ENDED = ("job.succeeded", "job.failed", "job.cancelled", "job.paused")


class Erasure:
    """Deletes samples, and forgets what was learned from them. Belongs to the event loop."""

    def __init__(self, store: Store, scheduler: Scheduler, feed: Feed) -> None:
        self._store = store
        self._scheduler = scheduler
        self._tasks = BackgroundTasks()
        # One erasure must not refit preprocessing to samples that another is about to delete.
        self._deleting = asyncio.Lock()
        feed.listen(self._on_event)

    async def stop(self) -> None:
        """Wait for deletions under way."""
        await self._tasks.wait()

    async def delete(
        self,
        model: Model,
        where: SampleFilter,
        matches: Callable[[bytes], bool] | None = None,
        *,
        retrain: bool,
    ) -> Deletion:
        """Delete the samples that match a filter; their bytes are gone when this returns.

        matches: which of their records are meant, None for all.
        retrain: if a job has trained on one of them, stop running jobs, and train again from the
        base model on what is left. Jobs are stopped first, and everything else is one transaction:
        if the daemon ends before it, nothing is deleted, and the caller may repeat the request.
        """
        if not retrain:
            delete = self._store.samples.delete_where
            target = model.signature.target
            gone = await asyncio.to_thread(delete, model.id, where, matches, target=target)
            return Deletion(len(gone))
        async with self._deleting:
            ids = await asyncio.to_thread(self._store.samples.ids, model.id, where, matches)
            while True:
                try:
                    return await asyncio.to_thread(self._forget, model.id, ids)
                except InUse:
                    await self._stop_jobs(model.id)

    def sweep(self) -> None:
        """Finish deletions, and overwrite bytes of models without work under way. Blocking."""
        try:
            self._store.finish_deletions()
        finally:
            for model_id in self._store.eraser.pending_models():
                self._store.eraser.erase_at_rest(model_id)

    def _forget(self, model_id: int, ids: NDArray[np.int64]) -> Deletion:
        if len(ids) == 0:
            return Deletion(0)
        self._store.eraser.deletions.finish_of(model_id)  # or one that failed would teach the refit
        model = self._store.models.get_by_id(model_id)
        forgotten = self._store.unlearning.delete(
            model_id,
            ids,
            anew=retraining(self._store, model, ids),
            preprocess=learn_without(self._store, model, ids),
        )
        self._store.eraser.erase_or_later(model_id)
        return forgotten

    async def _stop_jobs(self, model_id: int) -> None:
        """Cancel the model's running job, if any, and wait until its process is gone."""
        for job in await asyncio.to_thread(self._store.jobs.running):
            if job.model_id == model_id:
                with suppress(StateConflict):  # it ended by itself meanwhile
                    await self._scheduler.cancel(job.id)
                    await self._scheduler.settle(job.id)

    def _on_event(self, happened: Happening) -> None:
        if happened.type in ENDED:
            self._tasks.start(asyncio.to_thread(self.sweep), name="erasure")
