"""The job runner on a real store: whatever ends a run, its row says so in the end."""

from __future__ import annotations

import asyncio
import errno
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from descriptors import no_descriptor_left
from stored import start_job
from support import DEADLINE_S, mlp, until

from service.jobs import runner as module
from service.jobs.child import Child
from service.jobs.enqueue import enqueue
from service.jobs.run import JobRun
from service.jobs.runner import JobRunner
from service.jobs.short_tasks import ShortTasks
from service.models.registry import Registry
from service.models.specification import ModelSpec
from service.policy.device_monitor import DeviceMonitor
from service.processes import children
from service.processes.children import Children
from service.settings import load_settings
from storage.errors import DiskFull
from storage.records.jobs import Blocker, Job, JobState
from storage.records.samples import Split
from storage.store import Store


@pytest.fixture
def job(store: Store, shop: Any) -> Job:
    """A job whose model has no artifacts, so that it cannot even begin."""
    return start_job(store, shop.add_model().id)


def play(store: Store, tmp_path: Path, scenario: Callable[[JobRunner], Any]) -> None:
    async def run() -> None:
        settings = load_settings(
            data_dir=store.data_dir, sysfs_root=tmp_path / "sys", procfs_root=Path("/proc")
        )
        monitor = DeviceMonitor(store, settings)
        watching = asyncio.create_task(monitor.run())
        new_run = partial(
            JobRun,
            store=store,
            settings=settings,
            monitor=monitor,
            children=Children(memory_cap_bytes=None),
            announce=lambda *_: None,
        )
        runner = JobRunner(store, new_run=new_run, on_free=lambda: None)
        try:
            await scenario(runner)
        finally:
            monitor.stop()
            await watching

    asyncio.run(run())


def test_a_fault_of_ours_fails_the_job_and_frees_the_runner(
    store: Store, job: Job, tmp_path: Path
) -> None:
    async def scenario(runner: JobRunner) -> None:
        runner.start(job)
        await runner.finish()
        assert runner.run is None

    play(store, tmp_path, scenario)

    row = store.jobs.get(job.id)
    assert row.state is JobState.FAILED
    assert row.error is not None
    assert row.error["code"] == "internal"


async def long_job(store: Store, tmp_path: Path) -> Job:
    """A job that runs, and does not end by itself."""
    upload = tmp_path / "model.onnx"
    upload.write_bytes(mlp(4, 4, 2))
    registry = Registry(
        store,
        ShortTasks(store, load_settings(data_dir=store.data_dir), Children(memory_cap_bytes=None)),
    )
    spec = ModelSpec("m", "cross_entropy")
    name = (await registry.register(spec, upload, form="forward")).name
    with store.samples.stage(store.models.get(name).id, 16) as staging:
        staging.add(bytes(16 * 8), [0, 1] * 4, split=[Split.TRAIN] * 8)
        staging.commit()
    asked = {"epochs": 1_000_000}
    job = enqueue(store, store.models.get(name), asked, trigger="manual", ignore_policy=True)
    return store.jobs.move(job.id, JobState.QUEUED, JobState.RUNNING)


async def shortage_of_memory(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Job]:
    """From now on no process starts; returns what claims a job."""

    async def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

    upload = tmp_path / "model.onnx"
    upload.write_bytes(mlp(4, 4, 2))
    settings = load_settings(data_dir=store.data_dir)
    registry = Registry(store, ShortTasks(store, settings, Children(memory_cap_bytes=None)))
    model = await registry.register(ModelSpec("m", "mse"), upload, form="forward")
    monkeypatch.setattr(children, "RETRY_DELAYS_S", (0.0, 0.0))
    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    return lambda: start_job(store, model.id)


def test_a_job_without_memory_for_a_process_waits_for_it(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def scenario(runner: JobRunner) -> None:
        job = (await shortage_of_memory(store, tmp_path, monkeypatch))()
        runner.start(job)
        await runner.finish()

        (shortage,) = runner.shortage_of(job.id)
        assert shortage.condition == "busy"
        assert "Cannot allocate memory" in shortage.detail
        row = store.jobs.get(job.id)
        assert (row.state, row.blocked_by) == (JobState.PAUSED, (shortage,))

    play(store, tmp_path, scenario)


def test_a_job_without_a_descriptor_left_waits_and_goes_on(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(children, "RETRY_DELAYS_S", (0.0, 0.0))

    async def scenario(runner: JobRunner) -> None:
        job = await long_job(store, tmp_path)
        with no_descriptor_left():
            runner.start(job)
            await runner.finish()
        (shortage,) = runner.shortage_of(job.id)
        assert shortage.condition == "busy"
        assert "Too many open files" in shortage.detail

        job = store.jobs.get(job.id)
        assert (job.state, job.blocked_by) == (JobState.PAUSED, (shortage,))
        runner.start(store.jobs.move(job.id, JobState.PAUSED, JobState.RUNNING))
        await until(lambda: store.jobs.get(job.id).progress.get("step"), "steps")
        await runner.cancel(job.id)
        await runner.finish()

    play(store, tmp_path, scenario)


@pytest.mark.parametrize(
    ("number", "condition"), [(errno.ENFILE, "busy"), (errno.ENOSPC, "storage_full")]
)
def test_a_fault_of_the_machine_that_nobody_foresaw_makes_a_job_wait(
    store: Store,
    job: Job,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    number: int,
    condition: str,
) -> None:
    async def train(_: JobRun) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(JobRun, "train", train)

    async def scenario(runner: JobRunner) -> None:
        runner.start(job)
        await runner.finish()
        assert [each.condition for each in runner.shortage_of(job.id)] == [condition]

    play(store, tmp_path, scenario)


def test_a_cancel_is_answered_while_the_child_still_ends(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A process of low priority can take seconds to be taken down on a busy device."""
    close, may_end = Child.close, asyncio.Event()

    async def close_late(self: Child, **options: float) -> None:
        await may_end.wait()
        await close(self, **options)

    async def scenario(runner: JobRunner) -> None:
        job = await long_job(store, tmp_path)
        monkeypatch.setattr(Child, "close", close_late)
        runner.start(job)
        await until(lambda: store.jobs.get(job.id).progress.get("step"), "steps")
        cancelled = await asyncio.wait_for(runner.cancel(job.id), DEADLINE_S)
        assert cancelled is not None
        assert cancelled.state is JobState.CANCELLED
        assert runner.run is not None
        assert await runner.cancel(job.id) is None
        runner.run.log.note("its last words")
        store.models.delete(job.model)
        may_end.set()
        await runner.finish()
        assert runner.run is None
        assert not caplog.records

    play(store, tmp_path, scenario)


@pytest.mark.parametrize("commands", [("pause", "cancel"), ("cancel", "pause"), ("hold", "cancel")])
def test_a_cancel_wins_over_what_else_a_run_was_told(
    store: Store, tmp_path: Path, commands: tuple[str, str]
) -> None:
    async def scenario(runner: JobRunner) -> None:
        job = await long_job(store, tmp_path)
        runner.start(job)
        await until(lambda: store.jobs.get(job.id).progress.get("step"), "steps")
        run = runner.run
        assert run is not None
        reasons = {"cancel": ()}
        for command in commands:
            await getattr(run, command)(*reasons.get(command, (Blocker("power", "no mains"),)))
        await runner.finish()
        assert store.jobs.get(job.id).state is JobState.CANCELLED

    play(store, tmp_path, scenario)


def test_jobs_that_were_held_back_and_never_asked_again_are_forgotten(
    store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SHORTAGE_RETRY_S", 0.0)

    async def scenario(runner: JobRunner) -> None:
        claim = await shortage_of_memory(store, tmp_path, monkeypatch)
        for job in (claim(), claim(), claim()):
            runner.start(job)
            await runner.finish()
        assert list(runner._held_back) == [job.id]

    play(store, tmp_path, scenario)


def test_the_end_of_a_run_is_written_once_there_is_room(
    store: Store, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "END_RETRY_S", 0.01)
    move, tries = store.jobs.move, 0

    def move_when_there_is_room(*given: Any, **fields: Any) -> Job:
        nonlocal tries
        tries += 1
        if tries < 4:
            raise DiskFull("the database cannot grow")
        return move(*given, **fields)

    monkeypatch.setattr(store.jobs, "move", move_when_there_is_room)

    async def scenario(runner: JobRunner) -> None:
        runner.start(job)
        await runner.finish()

    play(store, tmp_path, scenario)

    assert tries == 4
    assert store.jobs.get(job.id).state is JobState.FAILED


def test_a_daemon_that_stops_does_not_wait_for_room(
    store: Store, job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0

    def refuse(*_: object, **__: object) -> None:
        nonlocal tries
        tries += 1
        raise DiskFull("the database cannot grow")

    with monkeypatch.context() as full:
        full.setattr(store.jobs, "move", refuse)

        async def scenario(runner: JobRunner) -> None:
            runner.start(job)
            await until(lambda: tries > 0, "the first try")
            runner.close()
            await runner.finish()

        play(store, tmp_path, scenario)

    assert store.jobs.get(job.id).state is JobState.RUNNING  # the next daemon takes it up
