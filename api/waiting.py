"""Requests that wait: for something to happen, for their client to leave, for the time to be up."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from starlette.requests import Request
from starlette.types import Receive


@asynccontextmanager
async def client_of(request: Request) -> AsyncIterator[asyncio.Task[None]]:
    """A task that ends when the client has gone away."""
    leaving = asyncio.create_task(_gone(request.receive))
    # A body that breaks off or grows too long is a way of leaving, too.
    leaving.add_done_callback(lambda task: task.cancelled() or task.exception())
    try:
        yield leaving
    finally:
        leaving.cancel()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
