"""Enforces the limits of tokens and users, and aborts their open requests when they expire."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial

from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from api.access.auditing import note_refusal
from api.errors import refusal
from api.protocol import ABORT, IN_MEMORY, PRINCIPAL, USAGE, announced_bytes
from service.access.principal import Principal
from service.access.usage import Usage
from service.daemon import Daemon
from service.errors import QuotaExceeded
from storage.database.codec import utc_now

HELD_AT_ONCE = 2
"""Bodies of the largest size that may be in memory for one token."""


class Metering:
    """ASGI middleware that enforces limits, and aborts requests whose token ends meanwhile."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        principal: Principal | None = scope.get(PRINCIPAL)
        if principal is None or principal.is_administrator:
            await self._app(scope, receive, send)
            return
        daemon: Daemon = scope["app"].state.daemon
        settings, usage = daemon.settings, daemon.usages.of(principal)
        most_in_memory = HELD_AT_ONCE * max(settings.max_json_bytes, settings.prediction_body_bytes)
        limits, now = principal.limits, utc_now()
        scope[USAGE] = usage
        if limits.bytes_per_day is not None:
            receive = _counted(receive, usage, limits.bytes_per_day)
        abort = scope["extensions"][ABORT]["abort"]
        try:
            if limits.bytes_per_day is not None:
                usage.require_room(announced_bytes(scope), limits.bytes_per_day, now=now)
            with usage.request(limits, abort, now=now) as it, _ending(principal, abort, now=now):
                scope[IN_MEMORY] = partial(usage.hold, it, most_in_memory)
                await self._app(scope, receive, send)
        except QuotaExceeded as error:
            note_refusal(scope, error.code)
            await refusal(error)(scope, receive, send)


def _counted(receive: Receive, usage: Usage, limit: int) -> Receive:
    """Wrap `receive` to count the bytes of the body. The wrapper raises QuotaExceeded."""

    async def counted() -> Message:
        message = await receive()
        if size := len(message.get("body", b"")):
            usage.sent(size, limit, now=utc_now())
        return message

    return counted


@contextmanager
def _ending(principal: Principal, abort: Callable[[], None], *, now: datetime) -> Iterator[None]:
    """Abort the connection if the token expires while the block runs."""
    if principal.expires_at is None:
        yield
        return
    left_s = (principal.expires_at - now).total_seconds()
    timer = asyncio.get_running_loop().call_later(left_s, abort)
    try:
        yield
    finally:
        timer.cancel()
