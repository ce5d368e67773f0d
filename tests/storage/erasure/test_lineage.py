import numpy as np
import pytest
from stored import publish, save_final, start_job

from storage.errors import NotFound
from storage.records.jobs import JobState, NewJob


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
