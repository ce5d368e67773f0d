from datetime import timedelta

import numpy as np
import pytest
from stored import publish, save_final, start_job

from storage.errors import NotFound
from storage.records.jobs import JobState, NewJob
from storage.versions.retention import RetentionPolicy

JOBS, NEW_SAMPLES, VALIDATION = 300, 256, 0.1


@pytest.fixture
def model(store, add_model):
    return add_model(store)


@pytest.fixture
def finish(store, model):
    """A job that succeeded with a version, and one checkpoint."""

    def finish(seen, *, started_from=None, name=b"v"):
        job = start_job(store, model.id)
        if seen is not None:
            store.lineage.add(job.id, np.array(seen), started_from=started_from)
        publish(store, job, checkpoint_id=save_final(store, job).id)
        return store.jobs.get(job.id)

    return finish


def test_a_job_has_seen_what_it_started_from_has_seen(store, finish):
    first = finish([1, 2])
    second = finish([3], started_from=first.id)
    store.lineage.add(second.id, np.array([5]), started_from=None)
    assert store.lineage.by(second.id).tolist() == [1, 2, 3, 5]
    assert store.lineage.by(99) is None
    with pytest.raises(NotFound):
        store.lineage.add(99, np.array([1]), started_from=None)


def recorded(store):
    """Bytes of each record, by job."""
    rows = store._connection.execute("SELECT job_id, length(ids) FROM job_samples ORDER BY job_id")
    return dict(map(tuple, rows))


def test_records_grow_with_the_samples_and_not_with_those_times_the_jobs(store, model):
    chance = np.random.default_rng(0)
    seen, last = np.empty(0, np.int64), None
    for first in range(1, JOBS * NEW_SAMPLES, NEW_SAMPLES):
        new = np.arange(first, first + NEW_SAMPLES)
        seen = np.concatenate([seen, new[chance.random(NEW_SAMPLES) >= VALIDATION]])
        job = start_job(store, model.id)
        store.lineage.add(job.id, seen, started_from=last)
        last = job.id
    sizes = [*recorded(store).values()]
    assert len(sizes) == JOBS
    assert max(sizes) <= 1.5 * sizes[0]
    assert store.lineage.by(last).tolist() == seen.tolist()
    assert store.lineage.jobs_that_saw(model.id, seen[-1:]) == [last]
    assert len(store.lineage.jobs_that_saw(model.id, seen[:1])) == JOBS


def test_retention_drops_the_records_that_no_version_needs(store, model, finish):
    jobs = [finish([1])]
    for number in range(2, 9):
        jobs.append(finish([number], started_from=jobs[-1].id))
    failed = start_job(store, model.id)
    store.lineage.add(failed.id, np.array([90]), started_from=jobs[-1].id)
    store.jobs.move(failed.id, JobState.RUNNING, JobState.FAILED)
    pinned = store.checkpoints.update(store.checkpoints.latest_of(jobs[3].id).id, pinned=True)

    store.retention.prune(model.id, RetentionPolicy(max_versions=1))

    kept = {each.job_id for each in store.versions.list(model.id, 20)} - {None}
    assert recorded(store).keys() == kept | {pinned.job_id}
    for number, job in enumerate(jobs, 1):
        if job.id in recorded(store):
            assert store.lineage.by(job.id).tolist() == [*range(1, number + 1)]


def test_what_several_jobs_started_from_is_recorded_once_and_its_job_is_kept(store, model, finish):
    first = finish([1, 2])
    after = [finish([each], started_from=first.id) for each in (3, 4)]
    keep = [each.version for each in after]

    assert store.retention.prune(model.id, RetentionPolicy(max_versions=0), keep=keep) == [
        first.version
    ]

    assert recorded(store).keys() == {first.id, *(each.id for each in after)}
    store.history.prune(timedelta(days=-1))
    assert store.jobs.get(first.id).id == first.id
    assert store.lineage.by(after[0].id).tolist() == [1, 2, 3]


def test_what_a_job_uses_later_was_not_used_by_those_that_had_started_from_it(store, model, finish):
    paused = start_job(store, model.id)
    store.lineage.add(paused.id, np.array([1]), started_from=None)
    early = finish([2], started_from=paused.id)

    store.lineage.add(paused.id, np.array([3]), started_from=early.id)

    assert store.lineage.by(early.id).tolist() == [1, 2]
    assert store.lineage.by(paused.id).tolist() == [1, 2, 3]
    assert store.lineage.jobs_that_saw(model.id, np.array([3])) == [paused.id]
    assert store.lineage.jobs_that_saw(model.id, np.array([1])) == [paused.id, early.id]


def test_a_job_that_wrote_nothing_down_may_have_seen_all_up_to_its_watermark(
    store, model, upload, finish
):
    upload(store, model, [1, 1])
    old, new = finish(None), finish([2])
    assert store.lineage.jobs_that_saw(model.id, np.array([1])) == [old.id]
    assert store.lineage.jobs_that_saw(model.id, np.array([2])) == [old.id, new.id]
    assert store.lineage.jobs_that_saw(model.id, np.array([3])) == []


def test_a_job_that_has_begun_and_is_yet_to_say_may_see_all_up_to_its_watermark(
    store, model, upload
):
    upload(store, model, [1, 1])
    waiting = store.jobs.enqueue(NewJob(model.id, "manual", {}, "latest"))
    assert store.lineage.jobs_that_saw(model.id, np.array([2])) == []
    store.jobs.move(waiting.id, JobState.QUEUED, JobState.RUNNING)
    assert store.lineage.jobs_that_saw(model.id, np.array([2])) == [waiting.id]
    assert store.lineage.jobs_that_saw(model.id, np.array([3])) == []
