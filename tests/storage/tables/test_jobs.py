import itertools
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import datetime, timedelta, timezone

import pytest

from storage.errors import NotFound, StateConflict
from storage.records.jobs import NEXT, Blocker, JobState, NewJob
from storage.store import Store

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)
PATHS = {
    JobState.QUEUED: (),
    JobState.RUNNING: (JobState.RUNNING,),
    JobState.PAUSED: (JobState.RUNNING, JobState.PAUSED),
    JobState.SUCCEEDED: (JobState.RUNNING, JobState.SUCCEEDED),
    JobState.FAILED: (JobState.RUNNING, JobState.FAILED),
    JobState.CANCELLED: (JobState.CANCELLED,),
}


def enqueue(store, model, **fields):
    return store.jobs.enqueue(NewJob(model.id, "manual", {"epochs": 2}, "latest", **fields))


def bring(store, job, state):
    for to in PATHS[state]:
        job = store.jobs.move(job.id, job.state, to)
    return job


@pytest.mark.parametrize(("state", "to"), list(itertools.product(JobState, JobState)))
def test_a_job_moves_where_the_table_says_and_nowhere_else(store, add_model, state, to):
    job = bring(store, enqueue(store, add_model(store)), state)
    if to in NEXT[state]:
        assert store.jobs.move(job.id, state, to).state is to
        assert store.events.since(0, 100)[-1].type == f"job.{to.value}"
    else:
        words = "already" if to is state else f"and cannot become {to.value}"
        with pytest.raises(StateConflict, match=f"job {job.id} is {state.value} {words}"):
            store.jobs.move(job.id, state, to)
        assert store.jobs.get(job.id).state is state


def test_a_claim_is_lost_when_the_state_has_moved(store, add_model):
    job = enqueue(store, add_model(store))

    def claim(_):
        try:
            store.jobs.move(job.id, JobState.QUEUED, JobState.RUNNING)
        except StateConflict as error:
            return error.detail
        return "won"

    with ThreadPoolExecutor(8) as pool:
        outcomes = sorted(pool.map(claim, range(8)))
    assert outcomes == ["job 1 is running, not queued"] * 7 + ["won"]


def test_the_watermark_is_the_newest_sample_of_the_model(store, add_model, upload):
    one, two = add_model(store, "one"), add_model(store, "two")
    upload(store, one, [1, 2])
    upload(store, two, [1])
    assert enqueue(store, one).watermark == 2
    assert enqueue(store, two).watermark == 3
    assert enqueue(store, add_model(store, "empty")).watermark == 0


def test_times_of_start_and_end_are_kept(data_dir, add_model):
    store = Store.open(data_dir, now=lambda: NOW)
    job = enqueue(store, add_model(store))
    assert (job.created_at, job.started_at, job.finished_at) == (NOW, None, None)
    job = store.jobs.move(job.id, JobState.QUEUED, JobState.RUNNING)
    assert (job.started_at, job.finished_at) == (NOW, None)
    job = store.jobs.move(job.id, JobState.RUNNING, JobState.FAILED, error={"code": "x"})
    assert (job.finished_at, job.error) == (NOW, {"code": "x"})
    store.close()


def test_a_job_that_runs_waits_for_nothing(store, add_model):
    job = enqueue(store, add_model(store))
    blockers = (Blocker("battery", "20 %, must be 50 %"),)
    store.jobs.report(job.id, blocked_by=blockers)
    assert store.jobs.get(job.id).blocked_by == blockers
    assert store.jobs.move(job.id, JobState.QUEUED, JobState.RUNNING).blocked_by == ()
    paused = store.jobs.move(job.id, JobState.RUNNING, JobState.PAUSED, blocked_by=blockers)
    assert paused.blocked_by == blockers


def test_a_report_sets_what_it_is_given(store, add_model):
    job = enqueue(store, add_model(store))
    store.jobs.report(job.id, progress={"step": 3}, metrics={"train_loss": 0.5})
    store.jobs.report(job.id, progress={"step": 4}, restarts=1)
    job = store.jobs.get(job.id)
    assert (job.progress, job.metrics, job.restarts) == ({"step": 4}, {"train_loss": 0.5}, 1)
    assert job.ignore_policy is False
    store.jobs.report(job.id, ignore_policy=True)
    assert store.jobs.get(job.id).ignore_policy is True
    with pytest.raises(NotFound):
        store.jobs.report(99, progress={})


def test_lists_are_newest_first_and_waiting_is_oldest_first(store, add_model):
    one, two = add_model(store, "one"), add_model(store, "two")
    jobs = [enqueue(store, model) for model in (one, two, one, one)]
    bring(store, jobs[0], JobState.PAUSED)
    bring(store, jobs[2], JobState.RUNNING)

    def ids(**conditions):
        return [job.id for job in store.jobs.list(limit=10, **conditions)]

    assert ids() == [4, 3, 2, 1]
    assert ids(model="one") == [4, 3, 1]
    assert ids(model="one", after=4) == [3, 1]
    assert ids(states=[JobState.QUEUED]) == [4, 2]
    assert ids(states=[JobState.PAUSED, JobState.RUNNING], model="one") == [3, 1]
    assert [job.id for job in store.jobs.waiting()] == [1, 2, 4]
    assert [job.id for job in store.jobs.running()] == [3]


def test_a_job_of_no_model_or_of_no_id_is_not_found(store):
    with pytest.raises(NotFound, match="no model with id 9"):
        store.jobs.enqueue(NewJob(9, "manual", {}, "latest"))
    for act in (
        store.jobs.get,
        lambda job_id: store.jobs.move(job_id, JobState.QUEUED, JobState.RUNNING),
    ):
        with pytest.raises(NotFound, match="no job 9"):
            act(9)


def test_a_start_that_a_clock_dated_ahead_does_not_count(data_dir, add_model):
    times = [NOW + timedelta(days=400)]
    with closing(Store.open(data_dir, now=lambda: times[-1])) as store:
        one, two = add_model(store, "one"), add_model(store, "two")
        bring(store, enqueue(store, one), JobState.SUCCEEDED)
        times.append(NOW)
        bring(store, enqueue(store, two), JobState.SUCCEEDED)
        assert store.jobs.last_starts(NOW) == {two.id: NOW}
