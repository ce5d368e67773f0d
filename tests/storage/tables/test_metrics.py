import numpy as np
import pytest
from stored import publish, start_job

from storage.database.codec import dump
from storage.errors import NotFound
from storage.records.jobs import JobState, MetricPoint, NewJob
from storage.tables.jobs import move_job
from storage.tables.metrics import MOST_PACKED


@pytest.fixture
def job(store, add_model):
    return store.jobs.enqueue(NewJob(add_model(store).id, "manual", {}, "latest"))


def test_values_measured_at_one_step_are_one_point(store, job):
    store.metrics.add(job.id, [MetricPoint(10, 1, {"train_loss": 0.5})])
    store.metrics.add(job.id, [MetricPoint(10, 1, {"validation_loss": 0.7})])
    assert store.metrics.list(job.id, 10) == [
        MetricPoint(10, 1, {"train_loss": 0.5, "validation_loss": 0.7})
    ]


def test_pages_follow_each_other_by_step(store, job):
    store.metrics.add(job.id, [MetricPoint(step, 0, {"a": step / 3}) for step in (5, 0, 3)])
    first = store.metrics.list(job.id, 2)
    assert [point.step for point in first] == [0, 3]
    assert store.metrics.list(job.id, 2, 3) == [MetricPoint(5, 0, {"a": 5 / 3})]


def test_a_value_that_is_not_finite_and_a_job_that_is_not_there_are_refused(store, job):
    with pytest.raises(ValueError, match="JSON compliant"):
        store.metrics.add(job.id, [MetricPoint(1, 0, {"a": float("nan")})])
    with pytest.raises(NotFound):
        store.metrics.add(99, [MetricPoint(1, 0, {"a": 1.0})])


CURVE = [
    MetricPoint(3, 0, {"train_loss": 5.1260151863098145}),
    MetricPoint(7, 0, {"learning_rate": 0.001, "train_loss": -0.0}),
    MetricPoint(11, 1, {"learning_rate": 1e-300, "train_loss": 1 / 3, "validation_loss": 5e-324}),
    MetricPoint(12, 4, {}),
]


def tables(store, job):
    """How many rows each of the two tables holds of a job."""
    return tuple(
        store._connection.execute(
            f"SELECT count(*) FROM {table} WHERE job_id = ?", (job.id,)
        ).fetchone()[0]
        for table in ("metrics", "curves")
    )


def ended_job(store, add_model, points):
    job = start_job(store, add_model(store).id)
    store.metrics.add(job.id, points)
    return store.jobs.move(job.id, JobState.RUNNING, JobState.FAILED)


def test_a_curve_reads_the_same_once_its_job_has_ended_and_is_one_row(store, add_model):
    job = ended_job(store, add_model, CURVE[::-1])
    assert tables(store, job) == (0, 1)
    assert repr(store.metrics.list(job.id, 10)) == repr(CURVE)
    assert repr(store.metrics.list(job.id, 2, 3)) == repr(CURVE[1:3])
    assert store.metrics.list(job.id, 10, 12) == []


def test_the_curve_of_an_ended_job_takes_less_than_a_third_of_its_values_as_json(store, add_model):
    losses = np.random.default_rng(0).random(200, np.float32)
    points = [
        MetricPoint(step, step // 9, {"learning_rate": 0.001, "train_loss": float(loss)})
        for step, loss in enumerate(losses)
    ]
    job = ended_job(store, add_model, points)
    (size,) = store._connection.execute("SELECT length(points) FROM curves").fetchone()
    assert size < sum(len(dump(point.values)) for point in points) / 3
    assert store.metrics.list(job.id, 200) == points


def test_a_long_curve_stays_rows(store, add_model):
    points = [MetricPoint(step, step, {"a": 0.5}) for step in range(MOST_PACKED + 1)]
    job = ended_job(store, add_model, points)
    assert tables(store, job) == (MOST_PACKED + 1, 0)
    assert store.metrics.list(job.id, 10**5) == points


def test_a_job_that_ends_without_a_curve_has_no_row(store, add_model):
    job = ended_job(store, add_model, [])
    assert tables(store, job) == (0, 0)
    assert store.metrics.list(job.id, 10) == []


def test_a_paused_job_keeps_its_rows_until_it_has_ended(store, add_model):
    job = start_job(store, add_model(store).id)
    store.metrics.add(job.id, CURVE[:2])
    store.jobs.move(job.id, JobState.RUNNING, JobState.PAUSED)
    assert tables(store, job) == (2, 0)
    store.jobs.move(job.id, JobState.PAUSED, JobState.RUNNING)
    store.metrics.add(job.id, CURVE[2:])
    assert publish(store, job) is not None
    assert tables(store, job) == (0, 1)
    assert store.metrics.list(job.id, 10) == CURVE


def test_values_added_after_the_end_join_those_that_were_there(store, add_model):
    job = ended_job(store, add_model, CURVE)
    store.metrics.add(job.id, [MetricPoint(12, 4, {"later": 1.0}), MetricPoint(13, 4, {"a": 2.0})])
    assert store.metrics.list(job.id, 10) == [
        *CURVE[:3],
        MetricPoint(12, 4, {"later": 1.0}),
        MetricPoint(13, 4, {"a": 2.0}),
    ]


def test_a_curve_stays_rows_where_the_end_of_its_job_is_not_kept(store, add_model):
    job = start_job(store, add_model(store).id)
    store.metrics.add(job.id, CURVE)

    def end(transaction):
        move_job(transaction, job.id, from_=JobState.RUNNING, to=JobState.FAILED, fields={})
        raise OSError("killed")

    with pytest.raises(OSError, match="killed"):
        store.metrics._writer.write(end)
    assert tables(store, job) == (4, 0)
    assert store.metrics.list(job.id, 10) == CURVE
