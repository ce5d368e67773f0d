"""Work that nobody waits for ends, and tells when it fails."""

from __future__ import annotations

import asyncio
import logging

import pytest

from service.background import BackgroundTasks
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

    (record,) = [each for each in caplog.records if each.message == "background.failed"]
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
