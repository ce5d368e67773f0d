"""Which scope each route needs, and the check that a principal has it and keeps to its limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from starlette.types import ASGIApp, Message, Receive, Send
from starlette.types import Scope as AsgiScope

from api.errors import refusal
from api.protocol import ABORT
from api.security import PRINCIPAL
from service.access.principal import Principal, Scope
from service.access.usage import Counted, Usage
from service.daemon import Daemon
from service.errors import InsufficientScope, QuotaExceeded
from storage.database.codec import utc_now

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
USAGE = "honed.usage"
"""Our key of the ASGI scope: the `Usage` of the token that asks; absent for the admin token."""
_NEED = "__need__"


@dataclass(frozen=True, slots=True)
class Need:
    """What a route asks of a principal."""

    scope: Scope
    counted: Counted | None


def needs(scope: Scope, *, counted: Counted | None = None) -> Callable[[Endpoint], Endpoint]:
    """Declare the scope of a route's function; `{name}` in its path is the model it is about.

    counted: the limit of tokens that its requests are held against.
    """

    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _NEED, Need(scope, counted))
        return endpoint

    return declare


def need_of(route: APIRoute) -> Need | None:
    """What a route has declared."""
    need: Need | None = getattr(route.endpoint, _NEED, None)
    return need


class Metering:
    """ASGI middleware that holds tokens to their limits, and cuts off those that end meanwhile."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Pass the request on, or refuse it."""
        principal: Principal | None = scope.get(PRINCIPAL)
        if principal is None or not principal.is_token:
            await self._app(scope, receive, send)
            return
        daemon: Daemon = scope["app"].state.daemon
        usage, limits, now = daemon.usages.of(principal), principal.limits, utc_now()
        scope[USAGE] = usage
        if limits.bytes_per_day is not None:
            receive = _counted(receive, usage, limits.bytes_per_day)
        abort = scope.get("extensions", {}).get(ABORT, {"abort": lambda: None})["abort"]
        try:
            if limits.bytes_per_day is not None:
                usage.require_room(_announced(scope), limits.bytes_per_day, now=now)
            with usage.request(limits, abort, now=now), _ending(principal, abort, now=now):
                await self._app(scope, receive, send)
        except QuotaExceeded as error:
            await refusal(error)(scope, receive, send)


def _counted(receive: Receive, usage: Usage, limit: int) -> Receive:
    """Receive that counts the bytes of the body. It raises QuotaExceeded."""

    async def counted() -> Message:
        message = await receive()
        if size := len(message.get("body", b"")):
            usage.sent(size, limit, now=utc_now())
        return message

    return counted


def _announced(scope: AsgiScope) -> int:
    length = dict(scope["headers"]).get(b"content-length", b"")
    return int(length) if length.isdigit() else 0


@contextmanager
def _ending(principal: Principal, abort: Callable[[], None], *, now: datetime) -> Iterator[None]:
    """Cut the connection when the token expires while the block runs."""
    if principal.expires_at is None:
        yield
        return
    left_s = (principal.expires_at - now).total_seconds()
    timer = asyncio.get_running_loop().call_later(left_s, abort)
    try:
        yield
    finally:
        timer.cancel()


class ScopedRoute(APIRoute):
    """Refuses who lacks its scope before anything of the request is read.

    One that declares no scope refuses everybody.
    """

    async def handle(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Check, then answer. A path that needs no token has no principal."""
        principal: Principal | None = scope[PRINCIPAL]
        if principal is None or scope["method"] not in (self.methods or ()):
            await super().handle(scope, receive, send)
            return
        need = need_of(self)
        if need is None:
            raise InsufficientScope("this route declares no scope: nobody may use it", scope="")
        principal.require(need.scope, scope["path_params"].get("name"))
        usage: Usage | None = scope.get(USAGE)
        if need.counted is None or usage is None:
            await super().handle(scope, receive, send)
            return
        with usage.within(need.counted, principal.limits):
            await super().handle(scope, receive, send)


def require_scoped(router: APIRouter) -> APIRouter:
    """The router, if each of its routes checks scopes. Raises TypeError."""
    for route in router.routes:
        if not isinstance(route, ScopedRoute):
            raise TypeError(f"{route} checks no scope: give its router a route_class that does")
    return router


async def principal_of(request: Request) -> Principal:
    """Who asks."""
    principal: Principal = request.scope[PRINCIPAL]
    return principal


ThePrincipal = Annotated[Principal, Depends(principal_of)]
