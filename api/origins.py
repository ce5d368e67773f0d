"""Web apps of other origins that may use the daemon: CORS, as the Fetch standard defines it.

https://fetch.spec.whatwg.org/#http-cors-protocol
"""

from __future__ import annotations

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response
from starlette.types import Message, Scope, Send

from api.errors import problem
from service.access.principal import OF_PAGES, Principal

READABLE = (
    "ETag, Location, Retry-After, Content-Range, Repr-Digest, Honed-Not-Loaded, Honed-Version, "
    "Honed-Dtype, Honed-Shape"
)
"""Response headers that the page may read."""
ALLOWED = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, If-None-Match, If-Range, "
    "Last-Event-ID, Range",
    "Access-Control-Max-Age": "600",
}


class AllowedOrigins:
    """The allowed origins of web apps, from the settings."""

    def __init__(self, allowed: tuple[str, ...]) -> None:
        self._allowed = frozenset(allowed)

    def of(self, scope: Scope) -> str | None:
        """The origin of a request, if it is allowed."""
        given = Headers(scope=scope).getlist("origin")
        return given[0] if len(given) == 1 and given[0].lower() in self._allowed else None


def preflight(scope: Scope) -> Response | None:
    """The answer to a CORS preflight request of an allowed page; None for other requests."""
    headers = Headers(scope=scope)
    if scope["method"] != "OPTIONS" or "access-control-request-method" not in headers:
        return None
    asked = headers.get("access-control-request-private-network")
    private = {"Access-Control-Allow-Private-Network": "true"} if asked else {}
    return Response(status_code=204, headers={**ALLOWED, **private})


def refusal_of(principal: Principal) -> Response | None:
    """The refusal of a page's token with scopes beyond those of apps, in case it is stolen."""
    more = sorted(each.value for each in principal.scopes - OF_PAGES)
    if not more:
        return None
    return problem(
        "foreign_origin",
        "a web page uses this daemon with a narrow token only: this one may also do "
        f"{', '.join(more)}; make one by `honed tokens create`, with scopes of "
        f"{', '.join(sorted(each.value for each in OF_PAGES))}",
    )


def readable_by(origin: str, send: Send) -> Send:
    """Wrap `send` so that a page of this origin may read the answers."""

    async def send_readable(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = READABLE
            headers.add_vary_header("Origin")
        await send(message)

    return send_readable
