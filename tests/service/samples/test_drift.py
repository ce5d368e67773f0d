"""The hourly look at all models, in real children: only while the device is free, told once."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from stored import publish, start_job

from service.jobs.short_tasks import ShortTasks
from service.processes.children import Children
from service.samples.drift import DriftWatch
from service.settings import Settings
from storage.records.models import Model
from storage.records.samples import Split
from storage.store import Store

GENERATOR = np.random.default_rng(0)


class Device:
    """Whether a job might train now."""

    eligible = True

    async def observe(self) -> Any:
        return SimpleNamespace(verdict=SimpleNamespace(eligible=self.eligible))


def add(store: Store, model: Model, count: int, *, at: float = 0.0) -> None:
    rows = (GENERATOR.normal(size=(count, 4)) + at).astype("<f4")
    with store.samples.stage(model.id, 16) as staging:
        labels, splits = [1] * count, [Split.TRAIN] * count
        staging.add(rows.view(np.uint8).reshape(count, -1), labels, split=splits)
        staging.commit()


@pytest.fixture
def device() -> Any:
    return Device()


@pytest.fixture
def watch(store: Store, device: Any) -> DriftWatch:
    settings = Settings(data_dir=store.database.parent)
    return DriftWatch(store, ShortTasks(store, settings, Children(memory_cap_bytes=None)), device)


def told(store: Store) -> list[str | None]:
    return [each.model for each in store.events.since(0, 100) if each.type == "model.drifted"]


def test_every_model_is_looked_at_while_the_device_is_free(
    store: Store, model: Model, watch: DriftWatch, device: Device
) -> None:
    add(store, model, 100)
    publish(store, start_job(store, model.id))
    add(store, model, 60, at=5.0)
    device.eligible = False
    asyncio.run(watch.check_all())
    assert told(store) == []

    device.eligible = True
    asyncio.run(watch.check_all())
    assert told(store) == ["m"]
    add(store, model, 10, at=5.0)
    asyncio.run(watch.check_all())
    assert told(store) == ["m"]


def test_a_drift_that_ends_and_begins_again_is_told_again(
    store: Store, model: Model, watch: DriftWatch
) -> None:
    add(store, model, 300)
    publish(store, start_job(store, model.id))
    for at in (5.0, 0.0, 5.0):
        add(store, model, 300, at=at)
        asyncio.run(watch.check_all())
    assert told(store) == ["m", "m"]


def test_a_few_new_samples_are_not_worth_a_child(
    store: Store, model: Model, watch: DriftWatch
) -> None:
    def compared_up_to() -> int | None:
        asyncio.run(watch.check_all())
        report = watch._reports.newest(model.id)
        return report and report.newest

    add(store, model, 100)
    publish(store, start_job(store, model.id))
    add(store, model, 29)
    assert compared_up_to() is None
    add(store, model, 1)
    assert compared_up_to() == 130
    add(store, model, 29)
    assert compared_up_to() == 130
    add(store, model, 1)
    assert compared_up_to() == 160
