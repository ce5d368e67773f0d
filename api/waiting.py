"""Requests that wait for an event, a timeout, or their client's disconnection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import TypeVar

from starlette.requests import ClientDisconnect, Request
from starlette.types import Receive

T = TypeVar("T")


@asynccontextmanager
async def client_of(request: Request) -> AsyncIterator[asyncio.Task[None]]:
    """A task that ends when the client disconnects."""
    leaving = asyncio.create_task(_gone(request.receive))
    # A body that breaks off or grows too large counts as a disconnection too.
    leaving.add_done_callback(lambda task: task.cancelled() or task.exception())
    try:
        yield leaving
    finally:
        leaving.cancel()


async def unless_gone(request: Request, work: Awaitable[T]) -> T:
    """Await `work`, and return its result; cancelled if the client disconnects.

    Raises ClientDisconnect.
    """
    async with client_of(request) as leaving:
        working = asyncio.ensure_future(work)
        try:
            await asyncio.wait({working, leaving}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not working.done():
                working.cancel()
                await asyncio.wait({working})
    if working.cancelled():
        raise ClientDisconnect
    return working.result()


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
