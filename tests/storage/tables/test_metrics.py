import pytest

from storage.errors import NotFound
from storage.records.jobs import MetricPoint, NewJob


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
