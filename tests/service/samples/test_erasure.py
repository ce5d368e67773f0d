"""A deletion that has to wait: for the process of a job that holds the samples."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from stored import start_job
from support import until

from service.events import Feed
from service.jobs.scheduler import Scheduler
from service.samples.erasure import Erasure
from storage.records.jobs import Job, JobState
from storage.records.models import Model
from storage.samples.filter import SampleFilter
from storage.store import Store


@pytest.fixture
def model(shop: Any) -> Model:
    model: Model = shop.add_model()
    shop.add_samples(model, 4)
    return model


class Training(Scheduler):
    """A scheduler whose job was cancelled, but its process is not gone yet."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.awaited: list[int] = []
        self.gone = asyncio.Event()

    async def cancel(self, job_id: int) -> Job:
        return self._store.jobs.move(job_id, JobState.RUNNING, JobState.CANCELLED)

    async def settle(self, job_id: int) -> None:
        self.awaited.append(job_id)
        await self.gone.wait()


def test_the_process_of_a_job_that_held_the_samples_is_gone_first(
    store: Store, model: Model
) -> None:
    async def run() -> None:
        job = start_job(store, model.id)
        ids = store.samples.ids(model.id, SampleFilter())
        store.lineage.add(job.id, ids, started_from=None)
        scheduler = Training(store)
        erasure = Erasure(store, scheduler, Feed(store))
        deleting = asyncio.ensure_future(erasure.delete(model, SampleFilter(), retrain=True))
        await until(lambda: scheduler.awaited == [job.id], "the process to be awaited")
        assert len(store.samples.ids(model.id, SampleFilter())) == len(ids)
        scheduler.gone.set()
        assert (await deleting).deleted == len(ids)
        await erasure.stop()

    asyncio.run(run())
