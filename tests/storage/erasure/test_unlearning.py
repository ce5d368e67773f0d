import numpy as np
import pytest
from stored import publish, save_final, start_job

from storage.erasure.unlearning import Deletion
from storage.errors import DiskFull, InUse
from storage.records.jobs import JobState, NewJob

MEAN = ({"input": "x", "kind": "standardize", "mean": [2.0], "std": [1.0], "learn_from": 9},)


@pytest.fixture
def model(store, add_model):
    return add_model(store)


@pytest.fixture
def finish(store, model):
    """A job that succeeded with a version, and one checkpoint."""

    def finish(seen, *, started_from=None):
        job = start_job(store, model.id)
        store.lineage.add(job.id, np.array(seen), started_from=started_from)
        publish(store, job, checkpoint_id=save_final(store, job).id)
        return store.jobs.get(job.id)

    return finish


@pytest.fixture
def tainted(store, model, upload, finish):
    """A job that saw both samples of the model."""
    upload(store, model, [1, 1])
    return finish([1, 2])


@pytest.fixture
def forget(store, model):
    """Delete samples, and wish that what saw them goes."""

    def forget(*ids, preprocess=None):
        anew = NewJob(model.id, "erasure", {"epochs": 7}, "base")
        return store.unlearning.delete(model.id, np.array(ids), anew=anew, preprocess=preprocess)

    return forget


def refuse(*_):
    raise DiskFull("the database cannot grow")


def versions(store, model):
    return {each.version: each.aliases for each in store.versions.list(model.id, 10)}


def test_versions_are_forgotten_once_a_job_has_done_without(store, model, tainted, finish, forget):
    waiting = store.jobs.enqueue(
        NewJob(model.id, "manual", {}, str(store.checkpoints.latest_of(tainted.id).id))
    )
    failed = forget(1).job
    store.aliases.set(model.id, "stable", tainted.version)
    clean = finish([2])
    assert tainted.version in versions(store, model)  # the wish's own job is still to come
    store.jobs.move(failed.id, JobState.QUEUED, JobState.CANCELLED)
    finish([1])
    assert tainted.version in versions(store, model)  # that job has seen the sample itself

    anew = finish([2])

    assert versions(store, model) == {anew.version: ("latest", "stable"), clean.version: (), 1: ()}
    assert store.checkpoints.latest_of(tainted.id) is None
    assert store.jobs.get(waiting.id).state is JobState.CANCELLED
    later = finish([2])
    assert versions(store, model)[anew.version] == ("stable",)
    assert versions(store, model)[later.version] == ("latest",)


@pytest.mark.usefixtures("tainted")
def test_the_wish_is_kept_with_the_deletion(store, model, forget):
    deletion = forget(1, 77)
    job = store.jobs.get(deletion.job.id)
    assert (deletion.deleted, job.state, job.start) == (1, JobState.QUEUED, "base")
    assert job.hyperparameters == {"epochs": 7}
    assert [each.id for each in store.samples.list(model.id, limit=9)] == [2]

    store.jobs.move(job.id, JobState.QUEUED, JobState.RUNNING)
    store.lineage.add(job.id, np.array([2]), started_from=None)
    made = publish(store, job)

    assert versions(store, model) == {made.version: ("latest",), 1: ()}


def test_a_job_whose_publication_fails_has_deleted_nothing(
    store, model, tainted, forget, monkeypatch
):
    job = start_job(store, model.id)
    store.lineage.add(job.id, np.array([2]), started_from=None)
    anew = forget(1).job
    store.jobs.move(anew.id, JobState.QUEUED, JobState.CANCELLED)
    with monkeypatch.context() as full:
        full.setattr(store.files, "release", refuse)
        with pytest.raises(DiskFull):
            publish(store, job)

    assert versions(store, model) == {tainted.version: ("latest",), 1: ()}
    assert store.jobs.get(job.id).state is JobState.RUNNING

    made = publish(store, job)

    assert versions(store, model) == {made.version: ("latest",), 1: ()}


def test_nothing_happens_while_a_job_runs_that_saw_one(store, model, upload, finish, forget):
    upload(store, model, [1, 1])
    paused, running = start_job(store, model.id), start_job(store, model.id)
    store.lineage.add(paused.id, np.array([1]), started_from=None)
    store.jobs.move(paused.id, JobState.RUNNING, JobState.PAUSED)
    store.lineage.add(running.id, np.array([1]), started_from=None)
    with pytest.raises(InUse, match=f"job {running.id} trains"):
        forget(1)
    assert [each.id for each in store.samples.list(model.id, limit=9)] == [1, 2]
    assert store.jobs.get(paused.id).state is JobState.PAUSED

    store.jobs.move(running.id, JobState.RUNNING, JobState.CANCELLED)

    assert forget(1).job.id > running.id
    assert store.jobs.get(paused.id).state is JobState.CANCELLED


def test_erasures_share_a_job_that_has_not_begun(store, model, upload, finish, forget):
    upload(store, model, [1, 1, 1])
    tainted, later = finish([1]), finish([2])
    first = forget(1).job
    assert forget(2).job == first
    store.jobs.move(first.id, JobState.QUEUED, JobState.RUNNING)
    store.lineage.add(first.id, np.array([3]), started_from=None)
    made = publish(store, first)

    assert not {tainted.version, later.version} & versions(store, model).keys()
    assert versions(store, model)[made.version] == ("latest",)


def test_what_no_job_saw_just_goes(store, model, upload, finish, forget):
    upload(store, model, [1, 1])
    finish([1])
    running = start_job(store, model.id)
    store.lineage.add(running.id, np.array([1]), started_from=None)
    assert forget(2) == Deletion(1)
    assert store.jobs.get(running.id).state is JobState.RUNNING


def test_without_anything_to_train_on_version_1_inherits(store, model, upload, finish, forget):
    upload(store, model, [1])
    gone = finish([1])
    assert forget(1) == Deletion(1, versions=(gone.version,))
    assert versions(store, model) == {1: ("latest",)}


def test_all_that_used_the_old_mean_goes_with_it(store, model, upload, finish, forget):
    upload(store, model, [1, 1])
    tainted, dependent = finish([1, 2]), finish([2])
    running = start_job(store, model.id)
    store.lineage.add(running.id, np.array([2]), started_from=None)
    with pytest.raises(InUse):
        forget(1, preprocess=MEAN)
    assert store.models.get_by_id(model.id).preprocess == ()
    store.jobs.move(running.id, JobState.RUNNING, JobState.PAUSED)

    deletion = forget(1, preprocess=MEAN)

    assert store.models.get_by_id(model.id).preprocess == MEAN
    assert store.jobs.get(running.id).state is JobState.CANCELLED
    assert store.lineage.by(dependent.id).tolist() == [1, 2]
    job = deletion.job
    store.jobs.move(job.id, JobState.QUEUED, JobState.RUNNING)
    store.lineage.add(job.id, np.array([2]), started_from=None)
    publish(store, job)
    assert not {tainted.version, dependent.version} & versions(store, model).keys()


def test_what_came_after_a_version_has_not_taught_the_mean_that_it_uses(
    store, model, upload, finish, forget
):
    upload(store, model, [1])
    finish([1])
    upload(store, model, [1, 1], first=1)
    finish([1, 2, 3])
    taught = store.unlearning.may_have_taught
    assert [taught(model.id, np.array([each])) for each in (1, 2, 3)] == [True, False, False]

    forget(1, preprocess=MEAN)  # the version that came first goes: the new mean is of all

    assert taught(model.id, np.array([3]))
