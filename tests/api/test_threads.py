"""Threads for blocking work are bounded, and reads go on while uploads hold all of theirs."""

from __future__ import annotations

import asyncio
import threading

from anyio.to_thread import run_sync
from fastapi import FastAPI, Request
from support import DEADLINE_S, until

from api import threads


def test_a_read_does_not_wait_for_uploads() -> None:
    app, disk = FastAPI(), threading.Event()
    threads.install(app)
    request = Request({"type": "http", "app": app})

    def write(number: int) -> int:
        assert disk.wait(DEADLINE_S)
        return number

    async def busy() -> list[int]:
        threads.limit()
        uploads = [
            asyncio.ensure_future(threads.upload(request, write, number))
            for number in range(2 * (threads.READS + threads.UPLOADS))
        ]
        await until(
            lambda: not app.state.upload_threads.available_tokens, "uploads on every thread"
        )
        read = await asyncio.wait_for(run_sync(lambda: "a list"), DEADLINE_S)
        assert read == "a list"
        assert not any(upload.done() for upload in uploads)
        disk.set()
        return await asyncio.gather(*uploads)

    assert asyncio.run(busy()) == list(range(2 * (threads.READS + threads.UPLOADS)))


def test_blocking_work_beside_requests_has_a_fixed_number_of_threads() -> None:
    disk = threading.Event()

    def workers() -> int:
        return sum(each.name.startswith("worker_") for each in threading.enumerate())

    async def busy() -> int:
        threads.limit()
        work = [asyncio.ensure_future(asyncio.to_thread(disk.wait, DEADLINE_S)) for _ in range(40)]
        try:
            await until(lambda: workers() >= threads.WORKERS, "threads")
            return workers()
        finally:
            disk.set()
            await asyncio.gather(*work)

    assert asyncio.run(busy()) == threads.WORKERS
