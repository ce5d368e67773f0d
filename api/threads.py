"""Threads for blocking work: uploads, which wait for the disk, have their own.

Reads share anyio's default ones, and never wait for an upload.
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
"""Each thread keeps stack and heap of its own while it works, and for ten seconds after."""

P = ParamSpec("P")
Result = TypeVar("Result")


def install(app: FastAPI) -> None:
    """Make room for this many at once."""
    app.state.upload_threads = CapacityLimiter(UPLOADS)


def limit_reads() -> None:
    """Bound the threads of the running event loop."""
    current_default_thread_limiter().total_tokens = READS


async def upload(
    request: Request, work: Callable[P, Result], *args: P.args, **kwargs: P.kwargs
) -> Result:
    """What the work returns, done in a thread for uploads."""
    limiter: CapacityLimiter = request.app.state.upload_threads
    return await run_sync(partial(work, *args, **kwargs), limiter=limiter)
