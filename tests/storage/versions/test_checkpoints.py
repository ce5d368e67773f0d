import pytest

from storage.errors import InUse, NotFound
from storage.records.jobs import JobState, NewJob


@pytest.fixture
def job(store, add_model):
    job = store.jobs.enqueue(NewJob(add_model(store).id, "manual", {}, "latest"))
    return store.jobs.move(job.id, JobState.QUEUED, JobState.RUNNING)


@pytest.fixture
def save(store, adopt, job):
    def save(step, role="periodic"):
        return store.checkpoints.add(
            model_id=job.model_id,
            job_id=job.id,
            role=role,
            step=step,
            epoch=0,
            engine="sessions 1",
            file=adopt(store, f"{role} {step}".encode()),
            state={"step": step},
        )

    return save


def ids(store, job):
    return [checkpoint.id for checkpoint in store.checkpoints.list(job.model_id, 10)]


def test_the_newest_two_periodic_and_the_newest_best_stay(store, job, save):
    saved = [save(step) for step in range(4)] + [save(step, "best") for step in range(2)]
    assert ids(store, job) == [6, 4, 3]
    kept = [store.files.path(each.file.sha256).exists() for each in saved]
    assert kept == [False, False, True, True, False, True]


def test_a_pinned_checkpoint_stays(store, job, save):
    store.checkpoints.update(save(0).id, pinned=True, note="good one")
    for step in range(1, 5):
        save(step)
    assert ids(store, job) == [5, 4, 1]
    assert store.checkpoints.get(1).note == "good one"


def test_a_checkpoint_that_another_job_starts_from_stays(store, job, save):
    first = save(0)
    store.jobs.enqueue(NewJob(job.model_id, "manual", {}, str(first.id)))
    for step in range(1, 4):
        save(step)
    assert ids(store, job) == [4, 3, 1]
    store.jobs.move(job.id, JobState.RUNNING, JobState.CANCELLED)
    with pytest.raises(InUse, match="starts from it"):
        store.checkpoints.delete(first.id)


def test_the_latest_to_go_on_from_is_the_newest_of_its_roles(store, job, save):
    assert store.checkpoints.latest_of(job.id) is None
    periodic, best = save(1), save(2, "best")
    assert store.checkpoints.latest_of(job.id) == periodic
    assert store.checkpoints.latest_of(job.id, roles=("best",)) == best
    assert store.checkpoints.latest_of(job.id).state == {"step": 1}


def test_a_checkpoint_is_deleted_once_nothing_needs_it(store, job, save):
    checkpoint = save(1)
    with pytest.raises(InUse, match=f"job {job.id} may go on from it"):
        store.checkpoints.delete(checkpoint.id)
    store.jobs.move(job.id, JobState.RUNNING, JobState.CANCELLED)
    store.checkpoints.delete(checkpoint.id)
    assert not store.files.path(checkpoint.file.sha256).exists()
    for act in (store.checkpoints.get, store.checkpoints.delete, store.checkpoints.update):
        with pytest.raises(NotFound):
            act(checkpoint.id)


def test_saving_is_told_as_an_event(store, job, save):
    save(7)
    event = store.events.since(0, 100)[-1]
    assert (event.type, event.model) == ("checkpoint.saved", "digits")
    assert event.data == {"checkpoint_id": 1, "job_id": job.id, "role": "periodic", "step": 7}
