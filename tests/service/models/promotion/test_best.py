"""Which version a chain of small losses is measured against, on a real store."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from stored import adopt, new_model, publish, start_job

from service.models.promotion.best import find_best
from storage.records.jobs import Job, JobState, NewJob
from storage.records.models import Model
from storage.store import Store


@pytest.fixture
def model(store: Store) -> Model:
    return store.models.add(new_model(), adopt(store, b"base"))


def add(store: Store, model: Model, accuracy: float, *, promoted: bool = True, **more: Any) -> None:
    metrics = {"accuracy": accuracy}
    fields = {"metrics": metrics, "baseline": {}, "promoted": promoted} | more
    publish(store, start_job(store, model.id), b"%f" % accuracy, **fields)


def best(store: Store, model: Model) -> int | None:
    latest = store.versions.by_alias(model.id, "latest")
    found = find_best(store, model, latest=latest)
    return None if found is None else found.version


def test_a_model_that_only_got_better_has_no_other_best(store: Store, model: Model) -> None:
    assert best(store, model) is None
    for accuracy in (0.5, 0.6, 0.7):
        add(store, model, accuracy)
    assert best(store, model) is None


def test_the_best_by_its_own_figure_counts(store: Store, model: Model) -> None:
    for accuracy in (0.5, 0.9, 0.7):
        add(store, model, accuracy)
    assert best(store, model) == 3


def test_what_was_refused_does_not_count(store: Store, model: Model) -> None:
    add(store, model, 0.9, promoted=False)
    add(store, model, 0.5)
    assert best(store, model) is None


def test_the_first_version_is_known_by_what_was_compared_with_it(
    store: Store, model: Model
) -> None:
    add(store, model, 0.75, baseline={"accuracy": 0.8}, verdict={"baseline_version": 1})
    assert best(store, model) == 1


def test_what_a_person_has_taken_back_does_not_count(store: Store, model: Model) -> None:
    for accuracy in (0.5, 0.6, 0.9):
        add(store, model, accuracy)
    store.aliases.set(model.id, "latest", 3)
    assert best(store, model) is None


def test_what_is_damaged_does_not_count(store: Store, model: Model) -> None:
    for accuracy in (0.8, 0.9, 0.7):
        add(store, model, accuracy)
    store.files.path(store.versions.get(model.id, 3).file.sha256).write_bytes(b"rotten")
    assert best(store, model) == 2


def test_an_erasure_deletes_the_best_as_any_other(store: Store, model: Model, shop: Any) -> None:
    shop.add_samples(model, 2)

    def learn(job: Job, accuracy: float, *seen: int) -> None:
        store.lineage.add(job.id, np.array(seen), started_from=None)
        publish(store, job, metrics={"accuracy": accuracy}, baseline={})

    learn(start_job(store, model.id), 0.9, 1, 2)
    learn(start_job(store, model.id), 0.7, 2)
    assert best(store, model) == 2

    wish = NewJob(model.id, "erasure", {}, "base")
    job = store.unlearning.delete(model.id, np.array([1]), anew=wish).job
    assert job is not None
    learn(store.jobs.move(job.id, JobState.QUEUED, JobState.RUNNING), 0.6, 2)

    assert best(store, model) == 3


def test_the_best_on_the_base_set_is_another(store: Store, model: Model) -> None:
    def known(accuracy: float) -> dict[str, Any]:
        return {"base_set": {"accuracy": accuracy}}

    before = {"baseline": {"accuracy": 0.1} | known(0.7), "verdict": {"baseline_version": 1}}
    for accuracy, on_base_set in ((0.5, 0.95), (0.9, 0.9), (0.7, 0.8)):
        add(store, model, accuracy, metrics={"accuracy": accuracy} | known(on_base_set), **before)
    latest = store.versions.by_alias(model.id, "latest")
    found = find_best(store, model, latest=latest, on_base_set=True)
    assert found is not None
    assert found.version == 2
    assert best(store, model) == 3
