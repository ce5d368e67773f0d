"""Which scope each route needs, and the check that a principal has it."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Annotated, Any, Literal, TypeVar

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from msgspec import Struct
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from api.access.auditing import (
    How,
    recorded_change,
    telling_change,
    telling_export,
)
from api.openapi import BODY_FAULTS, answers
from api.protocol import PRINCIPAL, READS, USAGE
from service.access.principal import Principal, Scope
from service.access.usage import Counted, Usage
from service.errors import InsufficientScope

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
_NEED = "__need__"


class Need(Struct, frozen=True):
    """What a route requires of a principal, and how the audit log records its requests."""

    scope: Scope
    codes: tuple[str, ...]
    counted: Counted | None
    audited: How | Literal["skip"] | None


def needs(
    scope: Scope,
    *codes: str,
    counted: Counted | None = None,
    audited: How | Literal["skip"] | None = None,
) -> Callable[[Endpoint], Endpoint]:
    """Declare the scope of a route's function; `{name}` in its path is the model concerned.

    codes: of its own errors, besides those of all routes, of paths with a parameter and of bodies.
    counted: the token limit that its requests count towards. audited: `skip` for a request that is
    not a GET but changes nothing; None for a change, or for a GET that is not an export.
    """

    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _NEED, Need(scope, codes, counted, audited))
        return endpoint

    return declare


def need_of(route: APIRoute) -> Need | None:
    """What a route has declared, if anything."""
    need: Need | None = getattr(route.endpoint, _NEED, None)
    return need


class ScopedRoute(APIRoute):
    """Refuses principals without its scope before reading the request.

    A route that declares no scope refuses everybody. Its operation id is its function's name; one
    that returns nothing answers 204.
    """

    answers = staticmethod(answers)

    def __init__(self, path: str, endpoint: Callable[..., Any], **options: Any) -> None:
        options["generate_unique_id_function"] = attrgetter("name")
        if endpoint.__annotations__.get("return") == "None":
            options["status_code"] = 204
        need: Need | None = getattr(endpoint, _NEED, None)
        if need is not None:
            codes = set(need.codes) | ({"not_found"} if "{" in path else set())
            if "requestBody" in (options["openapi_extra"] or {}):
                codes |= set(BODY_FAULTS)
            options["responses"] = {**(options["responses"] or {}), **self.answers(*sorted(codes))}
        super().__init__(path, endpoint, **options)

    async def handle(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Check, then answer. Requests to open paths have no principal."""
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
            await self._answer(need, scope, receive, send)
            return
        with usage.within(need.counted, principal.limits):
            await self._answer(need, scope, receive, send)

    async def _answer(self, need: Need, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Answer, with an entry in the audit log if required."""
        how = need.audited or _usual(need.scope, scope["method"])
        if how == "export":
            send = telling_export(scope, send)
        elif how != "skip":
            with recorded_change(scope, how) as pending:
                await super().handle(scope, receive, telling_change(scope, send, pending))
            return
        await super().handle(scope, receive, send)


def _usual(scope: Scope, method: str) -> Literal["samples", "change", "skip"]:
    """How requests are recorded by default."""
    if method in READS:
        return "skip"
    return "samples" if scope is Scope.SAMPLES_WRITE else "change"


def require_scoped(router: APIRouter) -> APIRouter:
    """The router, if each of its routes checks scopes. Raises TypeError."""
    for route in router.routes:
        if not isinstance(route, ScopedRoute):
            raise TypeError(f"{route} checks no scope: give its router a route_class that does")
    return router


def places_of(router: APIRouter) -> set[str]:
    """The first two segments of a router's paths, like `/v1/models`."""
    paths = (route.path for route in router.routes if isinstance(route, APIRoute))
    return {"/".join(path.split("/")[:3]) for path in paths}


async def principal_of(request: Request) -> Principal:
    """The principal that makes the request."""
    principal: Principal = request.scope[PRINCIPAL]
    return principal


ThePrincipal = Annotated[Principal, Depends(principal_of)]
