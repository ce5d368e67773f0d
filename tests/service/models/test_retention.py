"""Retention of every model, as the hourly round keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from stored import adopt, new_model, publish, start_job

from service.models.promotion.best import prune_all
from storage.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "data")
    yield store
    store.close()


def add_model(store: Store, name: str, *, versions: int, **retention: object) -> int:
    new = new_model(name, retention=dict(retention))
    model = store.models.add(new, adopt(store, f"{name} 1".encode()))
    for number in range(2, versions + 1):
        job = start_job(store, model.id)
        publish(store, job, f"{name} {number}".encode(), promoted=False)
    return model.id


def numbers(store: Store, model_id: int) -> list[int]:
    return [version.version for version in store.versions.list(model_id, 100)]


def test_every_model_is_pruned_by_its_own_limits(store: Store) -> None:
    strict = add_model(store, "strict", versions=6, max_versions=2)
    free = add_model(store, "free", versions=30, max_versions=None)
    default = add_model(store, "default", versions=30)
    prune_all(store)
    assert numbers(store, strict) == [6, 5, 4, 1]
    assert numbers(store, free) == list(range(30, 0, -1))
    assert numbers(store, default) == [*range(30, 9, -1), 1]


def test_the_best_that_was_promoted_stays(store: Store) -> None:
    model = store.models.add(
        new_model("best", retention={"max_versions": 1}), adopt(store, b"best 1")
    )
    for number, accuracy in enumerate((0.7, 0.9, 0.8, 0.8, 0.8, 0.8), start=2):
        job = start_job(store, model.id)
        publish(store, job, b"best %d" % number, metrics={"accuracy": accuracy}, baseline={})
    prune_all(store)

    assert numbers(store, model.id) == [7, 6, 5, 3, 1]
