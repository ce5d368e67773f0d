"""Work that nobody waits for ends, and tells when it fails."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timezone

import pytest
from support import until

from service.background import BackgroundTasks, Every, timer
from storage.errors import DiskFull


async def fail(error: Exception) -> None:
    raise error


@pytest.mark.parametrize(
    ("error", "words"), [(DiskFull("no room"), "no room"), (RuntimeError("odd"), "odd")]
)
def test_what_a_background_task_raises_is_logged(
    error: Exception, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)

    async def run() -> None:
        tasks = BackgroundTasks()
        tasks.start(fail(error), name="sweep")
        await tasks.wait()

    asyncio.run(run())

    (record,) = [record for record in caplog.records if record.message == "background.failed"]
    assert record.fields["task"] == "sweep"
    assert words in str(record.fields) + str(record.exc_info)


def test_waiting_covers_what_begins_meanwhile() -> None:
    ended = []

    async def run() -> None:
        tasks = BackgroundTasks()

        async def first() -> None:
            tasks.start(second(), name="second")

        async def second() -> None:
            for _ in range(20):  # longer than a wait for the first alone takes to return
                await asyncio.sleep(0)
            ended.append("second")

        tasks.start(first(), name="first")
        await tasks.wait()

    asyncio.run(run())

    assert ended == ["second"]


def test_periodic_work_runs_once_where_the_clock_has_jumped_from_1970() -> None:
    ran: list[datetime] = []

    async def run() -> None:
        scheduler = timer()
        began = datetime(1970, 1, 1, tzinfo=timezone.utc)
        job = scheduler.add_job(ran.append, Every(60), args=[began], next_run_time=began)
        scheduler.start()
        await until(lambda: ran and job.next_run_time.year > 1970, "a run")
        scheduler.shutdown(wait=False)

    asyncio.run(run())
    assert len(ran) == 1
