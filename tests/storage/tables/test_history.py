from datetime import datetime, timedelta, timezone

import numpy as np
import pytest
from stored import new_model, publish, start_job

from storage.records.federation import ROUND, NewRound
from storage.records.jobs import JobState, MetricPoint, NewJob, NewTrigger
from storage.store import Store

BEGIN = datetime(2026, 1, 1, tzinfo=timezone.utc)
AGE = timedelta(days=90)


@pytest.fixture
def clock():
    return [BEGIN]


@pytest.fixture
def store(data_dir, clock):
    store = Store.open(data_dir, now=lambda: clock[0])
    yield store
    store.close()


def failed_job(store, model):
    """A job that has one point of its curve."""
    job = start_job(store, model.id)
    store.metrics.add(job.id, [MetricPoint(1, 0, {"train_loss": 1.0})])
    return store.jobs.move(job.id, JobState.RUNNING, JobState.FAILED)


def job_ids(store):
    return {job.id for job in store.jobs.list(limit=100)}


def test_events_and_curves_are_forgotten_after_their_time(store, add_model, clock):
    model = add_model(store)
    old = failed_job(store, model)
    clock[0] += timedelta(days=89)
    young = failed_job(store, model)
    assert store.history.prune(AGE) == 0

    clock[0] += timedelta(days=2)
    store.history.prune(AGE)

    assert store.metrics.list(old.id, 10) == []
    assert len(store.metrics.list(young.id, 10)) == 1
    assert {event.data["job_id"] for event in store.events.since(0, 100)} == {young.id}


def test_a_jobs_row_stays_while_something_needs_it(store, add_model, adopt, clock):
    model = add_model(store)
    needless = failed_job(store, model)
    made_a_version = start_job(store, model.id)
    publish(store, made_a_version, b"second")
    has_a_checkpoint = failed_job(store, model)
    store.checkpoints.add(
        model_id=model.id,
        job_id=has_a_checkpoint.id,
        role="final",
        step=1,
        epoch=0,
        engine="sessions 1",
        file=adopt(store, b"checkpoint"),
        state={},
    )
    of_a_trigger = failed_job(store, model)
    trigger = store.triggers.add(NewTrigger(model.id, "t", {}, {}, 0, True))
    store.triggers.fired(trigger, job_id=of_a_trigger.id, labelled=0)
    of_an_upgrade = NewJob(model.id, "upgrade", {}, "base", base=0)
    store.bases.begin(new_model("-"), of_an_upgrade, request={})
    (failed_upgrade,) = store.jobs.waiting()
    store.jobs.move(failed_upgrade.id, JobState.QUEUED, JobState.RUNNING)
    store.jobs.move(failed_upgrade.id, JobState.RUNNING, JobState.FAILED)
    newest = failed_job(store, model)
    clock[0] += AGE + timedelta(days=1)
    waiting = store.jobs.enqueue(NewJob(model.id, "manual", {}, "latest"))

    store.history.prune(AGE)

    kept = [made_a_version, has_a_checkpoint, of_a_trigger, failed_upgrade, waiting]
    assert job_ids(store) == {job.id for job in kept}
    assert {needless.id, newest.id}.isdisjoint(job_ids(store))
    assert store.metrics.list(has_a_checkpoint.id, 10) == []


def test_a_jobs_row_stays_while_a_file_or_an_erasure_needs_it(
    store, add_model, upload, adopt, clock
):
    model = add_model(store)
    new = NewRound(NewJob(model.id, ROUND, {}, ROUND), "fl", 1, {}, None)
    of_a_round = store.rounds.begin(new, adopt(store, b"parameters")).job
    store.jobs.move(of_a_round.id, JobState.QUEUED, JobState.CANCELLED)
    upload(store, model, [1, 1])
    tainted = start_job(store, model.id)
    store.lineage.add(tainted.id, np.array([1, 2]), started_from=None)
    publish(store, tainted)
    anew = NewJob(model.id, "erasure", {}, "base")
    of_an_erasure = store.unlearning.delete(model.id, np.array([1]), anew=anew).job
    store.jobs.move(of_an_erasure.id, JobState.QUEUED, JobState.CANCELLED)
    needless, newest = failed_job(store, model), failed_job(store, model)
    clock[0] += AGE + timedelta(days=1)

    store.history.prune(AGE)

    assert job_ids(store) == {of_a_round.id, tainted.id, of_an_erasure.id, newest.id}
    assert needless.id not in job_ids(store)


def test_the_newest_job_of_a_model_stays_and_that_of_its_last_number(store, add_model, clock):
    made = start_job(store, add_model(store, "c").id)
    store.jobs.move(made.id, JobState.RUNNING, JobState.SUCCEEDED, version=2)
    jobs = [made, *(failed_job(store, add_model(store, name)) for name in ("a", "b"))]
    jobs.append(failed_job(store, store.models.get("c")))
    clock[0] += AGE * 2
    store.history.prune(AGE)
    assert job_ids(store) == {job.id for job in jobs}
