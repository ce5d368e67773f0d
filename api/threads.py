"""Threads for blocking work: uploads, which wait for the disk, have separate ones.

Reads share anyio's default threads, and never wait for an upload. Work beside requests, and short
work of routes that are coroutines, has those of `asyncio.to_thread`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractAsyncContextManager, nullcontext
from functools import partial
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import current_default_thread_limiter, run_sync
from fastapi import FastAPI, Request

READS = 8
UPLOADS = 8
"""Their threads end with the first request that comes once they have been idle for ten seconds."""
WORKERS = 4
"""They never end. asyncio's own bound, processors + 4, is reached after half a day, if at all."""

LARGE_BYTES = 2**20
"""Of a text. Python's objects take many times as much, so only one such text is read at once."""

P = ParamSpec("P")
Result = TypeVar("Result")


def install(app: FastAPI) -> None:
    """Allow `UPLOADS` of them at once."""
    app.state.upload_threads = CapacityLimiter(UPLOADS)
    app.state.large_text = asyncio.Lock()


def limit() -> None:
    """Limit the default threads of the running event loop."""
    current_default_thread_limiter().total_tokens = READS
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(WORKERS, "worker"))


async def upload(
    request: Request, work: Callable[P, Result], *args: P.args, **kwargs: P.kwargs
) -> Result:
    """Run `work` in a thread for uploads; returns its result."""
    limiter: CapacityLimiter = request.app.state.upload_threads
    return await run_sync(partial(work, *args, **kwargs), limiter=limiter)


def reading(request: Request, size_bytes: int) -> AbstractAsyncContextManager[object]:
    """The block reads a text of this size into objects; a large text waits for the others."""
    lock: asyncio.Lock = request.app.state.large_text
    return lock if size_bytes > LARGE_BYTES else nullcontext()
