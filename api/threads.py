"""Threads for blocking work: uploads, which wait for the disk, have separate ones.

Reads share anyio's default threads, and never wait for an upload.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ParamSpec, TypeVar

from anyio import CapacityLimiter
from anyio.to_thread import current_default_thread_limiter, run_sync
from fastapi import FastAPI, Request

READS = 8
UPLOADS = 8
"""Each thread keeps its own stack and heap while it works, and for ten seconds after."""

P = ParamSpec("P")
Result = TypeVar("Result")


def install(app: FastAPI) -> None:
    """Allow `UPLOADS` of them at once."""
    app.state.upload_threads = CapacityLimiter(UPLOADS)


def limit_reads() -> None:
    """Limit the default threads of the running event loop."""
    current_default_thread_limiter().total_tokens = READS


async def upload(
    request: Request, work: Callable[P, Result], *args: P.args, **kwargs: P.kwargs
) -> Result:
    """Run `work` in a thread for uploads; returns its result."""
    limiter: CapacityLimiter = request.app.state.upload_threads
    return await run_sync(partial(work, *args, **kwargs), limiter=limiter)
