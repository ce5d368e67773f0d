"""Publication on a real store; what a child would measure comes from the test."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from stored import adopt, new_model, publish, start_job

from service.jobs.publication import Publication
from service.jobs.recorder import Recorder
from service.training.protocol.messages.comparison import Comparison, Evaluate, Evaluated
from service.training.protocol.messages.training import Done
from storage.records.jobs import Job
from storage.records.models import Model
from storage.records.samples import Split
from storage.store import Store

SAMPLES = 31
RIGHT = {b"base": 10, b"broad": 13, b"best": 16, b"latest": 14, b"candidate": 12}


@pytest.fixture
def model(store: Store, shop: Any) -> Model:
    """Version 2 was the best, and version 3 is `latest`."""
    model = store.models.add(new_model(classes=2), adopt(store, b"base"))
    with store.samples.stage(model.id, 16) as staging:
        data = b"".join(number.to_bytes(16, "little") for number in range(SAMPLES))
        staging.add(data, [1] * SAMPLES, split=[Split.VALIDATION] * SAMPLES)
        staging.commit()
    for content in (b"best", b"latest"):
        metrics = {"accuracy": RIGHT[content] / SAMPLES}
        publish(store, start_job(store, model.id), content, metrics=metrics, baseline={})
    return store.models.get_by_id(model.id)


def measured(task: Evaluate) -> Evaluated:
    new, old = (RIGHT[Path(path).read_bytes()] for path in (task.candidate, task.baseline))
    comparison = Comparison(
        samples=SAMPLES,
        class_counts=(0, SAMPLES),
        candidate={"accuracy": new / SAMPLES},
        baseline={"accuracy": old / SAMPLES},
        discordant=(old - new + 3, 3),
    )
    return Evaluated(comparison, base_set=comparison if task.measurement.base_set else None)


def publish_candidate(
    store: Store, job: Job, *, tasks: list[Evaluate], meanwhile: Callable[[], object] = list
) -> None:
    path = store.tmp_dir / "candidate"
    path.write_bytes(b"candidate")

    recorder = Recorder(job, store, announce=lambda *_: None)
    done = Done(
        path=str(path),
        step=1,
        epoch=1,
        train_loss=0.5,
        validation={},
        baseline={},
        reason="finished",
    )
    comparisons = Publication(job, store, recorder).publish(done)
    with suppress(StopIteration):
        task = next(comparisons)
        while True:
            tasks.append(task)
            meanwhile()
            task = comparisons.send(measured(task))


def test_a_candidate_is_measured_against_latest_and_against_the_best(
    store: Store, model: Model
) -> None:
    tasks: list[Evaluate] = []

    job = start_job(store, model.id)

    publish_candidate(store, job, tasks=tasks)

    assert [Path(task.baseline).read_bytes() for task in tasks] == [b"latest", b"best"]
    made = store.versions.get(model.id, 4)
    assert not made.promoted
    assert "version 3" in made.reason
    assert "version 2, the best that was promoted" in made.reason
    assert store.versions.by_alias(model.id, "latest").version == 3
    told = store.jobs.get(job.id).metrics
    assert (told["promoted"], told["reason"]) == (False, made.reason)


def test_a_candidate_is_measured_against_the_best_on_the_base_set_too(
    store: Store, model: Model
) -> None:
    with store.samples.stage(model.id, 16) as staging:
        staging.add(b"base".ljust(16), [1], split=[Split.BASE])
        staging.commit()
    for content, on_base_set in ((b"broad", 0.9), (b"latest", 0.5)):
        metrics = {"accuracy": 14 / SAMPLES, "base_set": {"accuracy": on_base_set}}
        publish(store, start_job(store, model.id), content, metrics=metrics, baseline={})
    tasks: list[Evaluate] = []

    publish_candidate(store, start_job(store, model.id), tasks=tasks)

    assert [Path(task.baseline).read_bytes() for task in tasks] == [b"latest", b"best", b"broad"]
    verdict = store.versions.get(model.id, 6).verdict
    assert (verdict["best_version"], verdict["best_version_on_base_set"]) == (2, 4)
    assert verdict["best_on_base_set"]["baseline"] == RIGHT[b"broad"] / SAMPLES


def test_while_latest_is_the_best_one_comparison_is_enough(store: Store, model: Model) -> None:
    store.aliases.set(model.id, "latest", 2)
    tasks: list[Evaluate] = []

    publish_candidate(store, start_job(store, model.id), tasks=tasks)

    assert [Path(task.baseline).read_bytes() for task in tasks] == [b"best"]


def test_a_candidate_is_not_measured_against_damaged_versions(store: Store, model: Model) -> None:
    for number in (2, 3):
        store.files.path(store.versions.get(model.id, number).file.sha256).write_bytes(b"rotten")
    tasks: list[Evaluate] = []

    publish_candidate(store, start_job(store, model.id), tasks=tasks)

    assert [Path(task.baseline).read_bytes() for task in tasks] == [b"base"]
    assert store.versions.by_alias(model.id, "latest").version == 4


def test_a_job_whose_best_version_is_damaged_meanwhile_keeps_its_own(
    store: Store, model: Model
) -> None:
    best = store.files.path(store.versions.get(model.id, 2).file.sha256)
    job = start_job(store, model.id)

    publish_candidate(store, job, tasks=[], meanwhile=lambda: best.write_bytes(b"rotten"))

    made = store.versions.get(model.id, 4)
    assert not made.promoted
    assert "its bytes are not those that were stored" in made.reason
    assert store.jobs.get(job.id).version == 4
