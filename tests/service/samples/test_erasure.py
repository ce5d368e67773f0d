"""What is left of a deletion after something failed: it is tried again, and never in silence."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from stored import publish, start_job
from support import until

from service.events import Feed
from service.jobs.scheduler import Scheduler
from service.samples.erasure import Erasure
from storage.errors import DiskFull
from storage.records.jobs import Job, JobState
from storage.records.models import Model
from storage.samples.filter import SampleFilter
from storage.store import Store


def refuse(*_: object) -> None:
    raise DiskFull("the database cannot grow")


async def retrained(store: Store, model: Model, erasure: Erasure) -> None:
    """A version that saw a sample which is erased, and a job that has learned anew without it."""
    ids = await asyncio.to_thread(store.samples.ids, model.id, SampleFilter())
    first = await asyncio.to_thread(start_job, store, model.id)
    await asyncio.to_thread(store.lineage.add, first.id, ids, started_from=None)
    await asyncio.to_thread(publish, store, first)
    deletion = await erasure.delete(model, SampleFilter(up_to=1), retrain=True)
    assert deletion.job is not None
    job = deletion.job
    await asyncio.to_thread(store.jobs.move, job.id, JobState.QUEUED, JobState.RUNNING)
    await asyncio.to_thread(store.lineage.add, job.id, ids[1:], started_from=None)
    await asyncio.to_thread(publish, store, await asyncio.to_thread(store.jobs.get, job.id))


@pytest.fixture
def model(shop: Any) -> Model:
    model: Model = shop.add_model()
    shop.add_samples(model, 4)
    return model


class Idle(Scheduler):
    """A scheduler that is asked for nothing: no job runs here."""

    def __init__(self) -> None:
        pass


class Training(Idle):
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


def numbers(store: Store, model: Model) -> list[int]:
    return sorted(each.version for each in store.versions.list(model.id, limit=10))


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


def test_a_last_step_that_failed_is_taken_up_by_the_sweep(
    store: Store, model: Model, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)

    async def run() -> Erasure:
        erasure = Erasure(store, Idle(), Feed(store))
        with monkeypatch.context() as full:
            full.setattr(store.unlearning, "carry_out", refuse)
            await retrained(store, model, erasure)
            await until(lambda: caplog.text.count("background.failed") == 2, "both jobs' failures")
            erasure.sweep()
        await erasure.stop()
        return erasure

    erasure = asyncio.run(run())
    assert "erasure.unfinished" in caplog.text
    assert 2 in numbers(store, model)

    erasure.sweep()

    assert 2 not in numbers(store, model)
