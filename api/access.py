"""Which scope each route needs, and the check that a principal has it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from fastapi import APIRouter, Depends, Request
from fastapi.routing import APIRoute
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from api.security import PRINCIPAL
from service.access.principal import Principal, Scope
from service.errors import InsufficientScope

Endpoint = TypeVar("Endpoint", bound=Callable[..., Any])
_NEED = "__need__"


@dataclass(frozen=True, slots=True)
class Need:
    """What a route asks of a principal."""

    scope: Scope


def needs(scope: Scope) -> Callable[[Endpoint], Endpoint]:
    """Declare the scope of a route's function; `{name}` in its path is the model it is about."""

    def declare(endpoint: Endpoint) -> Endpoint:
        setattr(endpoint, _NEED, Need(scope))
        return endpoint

    return declare


def need_of(route: APIRoute) -> Need | None:
    """What a route has declared."""
    need: Need | None = getattr(route.endpoint, _NEED, None)
    return need


class ScopedRoute(APIRoute):
    """Refuses who lacks its scope before anything of the request is read.

    One that declares no scope refuses everybody.
    """

    async def handle(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Check, then answer. A path that needs no token has no principal."""
        principal: Principal | None = scope[PRINCIPAL]
        if principal is not None and scope["method"] in (self.methods or ()):
            need = need_of(self)
            if need is None:
                raise InsufficientScope("this route declares no scope: nobody may use it", scope="")
            principal.require(need.scope, scope["path_params"].get("name"))
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
