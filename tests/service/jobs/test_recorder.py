"""What a run writes, on a real store, with and without room for it."""

from __future__ import annotations

from typing import Any

import pytest
from stored import start_job

from service.jobs.recorder import REPORT_INTERVAL_S, Recorder
from service.training.protocol.messages import training
from storage.errors import DiskFull
from storage.records.jobs import Blocker, Job, JobState
from storage.store import Store


def progress(step: int) -> training.Progress:
    return training.Progress(step, 100, 1, 2, 50.0, 1.0, 0.5)


class Told(list[tuple[str, str | None, dict[str, Any]]]):
    """What was announced."""

    def __call__(self, type_: str, model: str | None, data: dict[str, Any]) -> None:
        self.append((type_, model, data))


@pytest.fixture
def job(store: Store, shop: Any) -> Job:
    return start_job(store, shop.add_model().id)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def recorder(store: Store, job: Job, told: Told, clock: Any) -> Recorder:
    return Recorder(job, store, announce=told, monotonic=lambda: clock.monotonic_s)


def fill_disk(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise DiskFull("the database cannot grow")

    monkeypatch.setattr(store.metrics, "add", refuse)
    monkeypatch.setattr(store.jobs, "report", refuse)


def test_progress_is_written_at_most_once_in_an_interval(recorder: Recorder, clock: Any) -> None:
    assert recorder.progressed(progress(1))
    recorder.report()
    assert not recorder.progressed(progress(2))
    clock.advance(REPORT_INTERVAL_S)
    assert recorder.progressed(progress(3))


def test_the_first_step_is_told_at_once_also_after_a_hold(recorder: Recorder) -> None:
    told = []
    for step in (0, 0, 1, 2, 2, 3, 4):
        if recorder.progressed(progress(step)):
            recorder.report()
            told.append(step)
    assert told == [0, 1, 3]


def test_a_report_reaches_the_row_the_curve_and_those_who_follow(
    recorder: Recorder, store: Store, job: Job, told: Told
) -> None:
    recorder.measured(training.Measured(7, 1, {"train_loss": 0.5}))
    recorder.progressed(progress(7))
    recorder.report()

    assert store.jobs.get(job.id).progress["step"] == 7
    assert [point.step for point in store.metrics.list(job.id, limit=10)] == [7]
    assert [(each[0], each[2]["step"]) for each in told] == [("job.progress", 7)]


def test_progress_without_room_is_dropped_and_the_curve_waits(
    recorder: Recorder, store: Store, job: Job, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as full:
        fill_disk(store, full)
        recorder.measured(training.Measured(7, 1, {"train_loss": 0.5}))
        recorder.progressed(progress(7))
        recorder.report()
    assert store.jobs.get(job.id).progress == {}
    assert told == []

    recorder.progressed(progress(9))
    recorder.report()

    assert store.jobs.get(job.id).progress["step"] == 9
    assert [point.step for point in store.metrics.list(job.id, limit=10)] == [7]


def test_the_end_of_a_run_moves_the_row_with_its_reason(
    recorder: Recorder, store: Store, job: Job
) -> None:
    reason = Blocker("battery", "battery at 20 %")
    recorder.ended(JobState.PAUSED, blocked_by=(reason,))

    row = store.jobs.get(job.id)
    assert (row.state, row.blocked_by) == (JobState.PAUSED, (reason,))
