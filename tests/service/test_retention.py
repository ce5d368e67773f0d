"""Retention of every model, as the hourly round keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.retention import RetentionPolicy, effective_retention, prune_all
from storage.records import JobState, NewJob, NewModel, Signature, TargetSpec, TensorSpec
from storage.store import Store

SIGNATURE = Signature((TensorSpec("x", "float32", (1,)),), TargetSpec("y", "int64", (), 2))


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "data")
    yield store
    store.close()


def add_model(store: Store, name: str, *, versions: int, **retention: object) -> int:
    def adopt(content: str) -> object:
        path = store.tmp_dir / "new"
        path.write_text(content)
        return store.files.adopt(path)

    new = NewModel(
        name=name,
        loss="cross_entropy",
        optimizer="adamw",
        output="y",
        signature=SIGNATURE,
        trainable=(),
        trainable_parameters=0,
        frozen_parameters=0,
        hyperparameters={},
        files={},
        retention=dict(retention),
    )
    model = store.models.add(new, adopt(f"{name} 1"))
    for number in range(2, versions + 1):
        job = store.jobs.enqueue(NewJob(model.id, "manual", {}, "base"))
        store.jobs.move(job.id, JobState.QUEUED, JobState.RUNNING)
        store.versions.publish(
            model_id=model.id,
            job_id=job.id,
            checkpoint_id=None,
            file=adopt(f"{name} {number}"),
            metrics={},
            baseline={},
            compared_with=None,
            promoted=False,
            reason="",
            verdict={},
            provenance={},
            job_metrics={},
        )
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


def test_what_a_model_does_not_say_is_the_default() -> None:
    assert effective_retention({"max_bytes": 5}) == RetentionPolicy(max_bytes=5)
    assert effective_retention({"max_versions": None}).max_versions is None
