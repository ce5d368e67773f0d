"""With which hyperparameters, and with which mean, a model is trained anew after an erasure."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stored import adopt, new_model, publish, remove_class

from service.events import Feed
from service.jobs.scheduler import Scheduler
from service.preprocess.fitting import learn_preprocess, learn_without
from service.samples.erasure import Erasure, retraining
from storage.records.id_set import encode
from storage.records.jobs import Job, JobState, NewJob
from storage.records.models import Model
from storage.records.samples import Split
from storage.records.versions import Version
from storage.store import Store
from storage.tables.classes import Removal

STANDARDIZE = {"input": "x", "kind": "standardize", "mean": None, "std": None, "learn_from": 2}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "data")
    yield store
    store.close()


@pytest.fixture
def model(store: Store) -> Model:
    new = new_model(hyperparameters={"epochs": 3}, preprocess=(STANDARDIZE,))
    return store.models.add(new, adopt(store, b"base"))


def train(
    store: Store, model: Model, *, epochs: int, steps: int, seen: tuple[int, ...] = (1,)
) -> Job:
    """A running job of so many steps that has seen these samples."""
    new = NewJob(model.id, "manual", {"epochs": epochs, "seed": steps}, "latest")
    job = store.jobs.move(store.jobs.enqueue(new).id, JobState.QUEUED, JobState.RUNNING)
    store.jobs.report(job.id, progress={"step": steps})
    store.lineage.add(job.id, np.array(seen), started_from=None)
    return job


def finish(store: Store, job: Job, **fields: Any) -> Version:
    version = publish(store, job, **fields)
    assert version is not None
    return version


def epochs(store: Store, model: Model) -> object:
    return retraining(store, model, np.array([1])).hyperparameters["epochs"]


def test_it_is_trained_as_the_longest_job_behind_latest(store: Store, model: Model) -> None:
    assert epochs(store, model) == 3  # nobody has trained it
    running = train(store, model, epochs=20, steps=900)
    assert epochs(store, model) == 20  # latest is the base model
    store.jobs.move(running.id, JobState.RUNNING, JobState.CANCELLED)

    long = finish(store, train(store, model, epochs=10, steps=500))
    parent = {"parent_version": long.version}
    finish(store, train(store, model, epochs=1, steps=50), provenance=parent)
    finish(store, train(store, model, epochs=99, steps=9000), promoted=False)

    new = retraining(store, model, np.array([1]))
    assert (new.hyperparameters["epochs"], new.hyperparameters["seed"]) == (10, 500)
    assert (new.start, new.trigger) == ("base", "erasure")


def test_a_chain_ends_where_a_version_is_gone(store: Store, model: Model) -> None:
    finish(store, train(store, model, epochs=2, steps=5), provenance={"parent_version": 77})
    assert epochs(store, model) == 2


def test_class_weights_of_a_job_before_the_classes_changed_are_left_out(
    store: Store, model: Model
) -> None:
    weights = {"class_weights": [1.0] * 10, "ignore_index": 3, "epochs": 4}
    job = store.jobs.enqueue(NewJob(model.id, "manual", weights, "latest"))
    finish(store, store.jobs.move(job.id, JobState.QUEUED, JobState.RUNNING))
    before = retraining(store, model, np.array([1]))
    assert weights.items() <= before.hyperparameters.items()

    remove_class(store, model, Removal(7))
    new = retraining(store, store.models.get(model.name), np.array([1]))
    assert new.hyperparameters["epochs"] == 4
    assert new.hyperparameters["class_weights"] is new.hyperparameters["ignore_index"] is None


def upload(store: Store, model: Model, *rows: float) -> None:
    data = b"".join(np.full(4, row, np.float32).tobytes() for row in rows)
    with store.samples.stage(model.id, 16) as staging:
        staging.add(data, [1] * len(rows), split=[Split.TRAIN] * len(rows))
        staging.commit()


def mean_without(store: Store, model: Model, *ids: int) -> object:
    descriptions = learn_without(store, model, np.array(ids))
    return None if descriptions is None else descriptions[0]["mean"]


def test_a_mean_is_learned_from_the_first_that_remain(store: Store, model: Model) -> None:
    upload(store, model, 1, 2, 4, 8)
    assert mean_without(store, model, 1) is None  # it is not learned yet
    learned = learn_preprocess(store, model, watermark=4)
    assert learned.preprocess[0]["mean"] == [1.5] * 4
    assert mean_without(store, learned, 1) == [3.0] * 4
    assert mean_without(store, learned, 1, 3) == [5.0] * 4
    assert mean_without(store, learned, 3) is None  # comes out the same
    assert learn_without(store, learned, np.array([1, 2, 3, 4])) == (STANDARDIZE,)


def test_a_damaged_sample_that_stays_keeps_none_from_going(store: Store, model: Model) -> None:
    upload(store, model, 1, 2)
    learned = learn_preprocess(store, model, watermark=2)
    pack = store.packs_dir / str(model.id) / "1.pack"
    pack.write_bytes(pack.read_bytes()[:16])
    assert learn_without(store, learned, np.array([1])) == (STANDARDIZE,)


def test_a_mean_is_not_learned_from_samples_whose_deletion_has_failed(
    store: Store, model: Model
) -> None:
    upload(store, model, 1, 2, 4, 8)
    learn_preprocess(store, model, watermark=4)
    finish(store, train(store, model, epochs=1, steps=1, seen=(1, 2)))
    begun = "INSERT INTO deletions (model_id, ids) VALUES (?, ?)"
    store._writer.write(lambda each: each.execute(begun, (model.id, encode([1]))))

    async def erase() -> None:
        erasure = Erasure(store, Scheduler.__new__(Scheduler), Feed(store))
        erasure._forget(model.id, np.array([2]))

    asyncio.run(erase())
    assert store.models.get(model.name).preprocess[0]["mean"] == [6.0] * 4
