"""A job's log: a ring of lines that tells nothing of the installation."""

from __future__ import annotations

import asyncio
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from stored import start_job

from service.errors import ChildDied
from service.jobs.log import LONGEST_LINE, MOST_CHARACTERS, MOST_LINES, JobLog
from service.processes.exits import ErrorTail
from storage.errors import StorageFull
from storage.records.jobs import Job, JobState
from storage.store import Store


@pytest.fixture
def job(store: Store, shop: Any) -> Job:
    return start_job(store, shop.add_model().id)


def texts(log: JobLog) -> list[str]:
    return [f"{line.source} {line.text}" for line in log.lines]


def test_lines_come_whole_whatever_the_chunks(store: Store, job: Job) -> None:
    log = JobLog(job.id, store)
    for chunk in (b"one\ntw", b"o\n\n", b"thr", b"ee"):
        log.take(chunk)
    assert texts(log) == ["child one", "child two"]
    log.ended(ChildDied("the training child was ended by SIGKILL; its last words: three"))
    assert texts(log)[2:] == ["child three", "daemon the training child was ended by SIGKILL"]


def test_lines_of_an_earlier_run_are_shown_before_they_are_loaded(store: Store, job: Job) -> None:
    before = JobLog(job.id, store)
    before.note("an earlier run")
    before.save()
    log = JobLog(job.id, store)
    assert [line.text for line in log.shown()] == ["an earlier run"]
    log.load()
    log.note("this one")
    assert [line.text for line in log.shown()] == ["an earlier run", "this one"]


def test_a_real_traceback_is_there_without_the_folders_of_the_installation(
    store: Store, job: Job
) -> None:
    log = JobLog(job.id, store)

    async def run() -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", "import json; json.loads('[')", stderr=asyncio.subprocess.PIPE
        )
        assert process.stderr is not None
        tail = ErrorTail(process.stderr, log.take)
        await process.wait()
        await tail.wait()

    asyncio.run(run())
    lines = texts(log)
    assert lines[0] == "child Traceback (most recent call last):"
    shown = str(Path("…", "json", "decoder.py"))
    assert any(f'File "{shown}", line ' in line for line in lines)
    assert "JSONDecodeError" in lines[-1]
    assert not any(sys.base_prefix in line for line in lines)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        (b"/home/ann/data/hone/tmp/job-3/x.onnx", "…/job-3/x.onnx"),
        (rb"C:\Users\ann\honed\service\job.py", r"…\service\job.py"),
        (b"a/b and 1/2 of /dev/null", "a/b and 1/2 of /dev/null"),
        (b"\x1b[31mred\x1b[0m\x07", "red"),
        (b"x" * 5000, "x" * LONGEST_LINE),
        ("ä".encode() + b"\xff", "ä\ufffd"),
    ],
)
def test_a_line_is_kept_without_folders_and_control_characters(
    store: Store, job: Job, written: bytes, kept: str
) -> None:
    log = JobLog(job.id, store)
    log.take(written + b"\n")
    assert texts(log) == [f"child {kept}"]


def test_it_is_bounded_in_lines_and_in_characters(store: Store, job: Job) -> None:
    log = JobLog(job.id, store)
    for number in range(1000):
        log.take(f"line {number}\n".encode())
    assert (len(log.lines), log.lines[-1].text) == (MOST_LINES, "line 999")
    log.take(b"y" * 10**6 + b"\n" + (b"z" * LONGEST_LINE + b"\n") * 150)
    assert sum(len(line.text) for line in log.lines) >= MOST_CHARACTERS - LONGEST_LINE
    assert sum(len(line.text) for line in log.lines) <= MOST_CHARACTERS


def test_the_next_run_goes_on_where_the_last_one_ended(store: Store, job: Job) -> None:
    first = JobLog(job.id, store)
    first.take(b"before\n")
    first.save()
    second = JobLog(job.id, store)
    second.load()
    second.take(b"after\n")
    second.save()
    assert [line.text for line in store.jobs.log(job.id)] == ["before", "after"]
    assert store.jobs.log(job.id)[0] == first.lines[0]


def test_a_full_disk_does_not_end_the_job(
    store: Store, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StorageFull("no room")

    log = JobLog(job.id, store)
    log.take(b"one\n")
    monkeypatch.setattr(store.jobs, "set_log", refuse)
    log.save()
    assert store.jobs.log(job.id) == []


def test_it_goes_with_the_curves_of_old_jobs(store: Store, job: Job) -> None:
    log = JobLog(job.id, store)
    log.take(b"one\n")
    log.save()
    store.history.prune(timedelta(seconds=-1))
    assert len(store.jobs.log(job.id)) == 1, "the job has not ended"
    store.jobs.move(job.id, JobState.RUNNING, JobState.FAILED)
    store.history.prune(timedelta(seconds=-1))
    assert store.jobs.log(job.id) == []
