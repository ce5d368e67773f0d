from __future__ import annotations

from datetime import datetime, timedelta, timezone

from service.jobs.waiting import in_turn
from storage.records.jobs import Job, JobState

NOON = datetime(2026, 3, 2, 12, 0, tzinfo=timezone.utc)


def job(job_id, model_id=1, *, priority=0, started=False):
    return Job(
        id=job_id,
        model_id=model_id,
        model=f"m{model_id}",
        state=JobState.PAUSED if started else JobState.QUEUED,
        trigger="request",
        hyperparameters={},
        start="latest",
        ignore_policy=False,
        watermark=0,
        created_at=NOON,
        started_at=NOON if started else None,
        priority=priority,
    )


def ids(jobs):
    return [job.id for job in jobs]


def test_the_oldest_job_of_one_model_goes_first():
    assert ids(in_turn([job(2), job(1), job(3)], {})) == [1, 2, 3]


def test_a_long_queue_of_one_model_starves_no_other():
    queue = [job(1, 1), job(2, 1), job(3, 1), job(4, 2), job(5, 2)]
    last_starts, order = {}, []
    for minute in range(5):
        first = in_turn(queue, last_starts)[0]
        queue.remove(first)
        last_starts[first.model_id] = NOON + timedelta(minutes=minute)
        order.append(first.id)
    assert order == [1, 4, 2, 5, 3]


def test_priority_goes_before_everything():
    jobs = [job(1, started=True), job(2), job(3, priority=5)]
    assert ids(in_turn(jobs, {1: NOON})) == [3, 1, 2]


def test_what_has_begun_is_finished_first():
    jobs = [job(1, 2), job(2, 1, started=True)]
    assert ids(in_turn(jobs, {1: NOON})) == [2, 1]
