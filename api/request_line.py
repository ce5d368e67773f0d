"""Normalizes the method and the target of requests, and answers those that a stop cuts off.

HEAD becomes a GET whose body is not sent (RFC 9110, section 9.3.2), and a target in absolute form
becomes a path and a Host (RFC 9112, section 3.2.2).
"""

from __future__ import annotations

import asyncio
from urllib.parse import unquote

from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import refusal
from api.protocol import IS_HEAD
from service.errors import NotReady

SCHEMES = (b"http://", b"https://")


class RequestLine:
    """ASGI middleware, the outermost."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request with two body lengths, or pass it on."""
        if _has_two_lengths(scope):
            await _two_lengths()(scope, receive, send)
            return
        asked = _in_origin_form(scope)
        if scope["method"] == "HEAD":
            asked, send = _as_get(asked), _Headers(send)
        try:
            await self._app(asked, receive, send)
        except asyncio.CancelledError:  # the daemon stops, and has waited for long enough
            stops = NotReady("the daemon stops; send it again when it runs")
            await refusal(stops)(scope, receive, send)


class _Headers:
    """Sends only the headers of an answer."""

    def __init__(self, send: Send) -> None:
        self._send = send

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            # RFC 9530, appendix B.2: a digest of the content would be that of an empty one.
            kept = [h for h in message["headers"] if h[0].lower() != b"content-digest"]
            await self._send({**message, "headers": kept})
            await self._send({"type": "http.response.body", "body": b""})


def _as_get(scope: Scope) -> Scope:
    """The scope of a GET, without Range, which is defined only for GET."""
    headers = [(name, value) for name, value in scope["headers"] if name != b"range"]
    return {**scope, "method": "GET", "headers": headers, IS_HEAD: True}


def _in_origin_form(scope: Scope) -> Scope:
    """Replace Host by an absolute target's authority."""
    target: bytes = scope["raw_path"]
    scheme = next((prefix for prefix in SCHEMES if target.lower().startswith(prefix)), None)
    if scheme is None:
        return scope
    authority, slash, rest = target[len(scheme) :].partition(b"/")
    raw_path = (slash + rest) or b"/"
    headers = [(name, value) for name, value in scope["headers"] if name != b"host"]
    return {
        **scope,
        "raw_path": raw_path,
        "path": unquote(raw_path.decode("ascii")),
        "headers": [(b"host", authority), *headers],
    }


def _has_two_lengths(scope: Scope) -> bool:
    names = {name for name, _ in scope["headers"]}
    return {b"content-length", b"transfer-encoding"} <= names


def _two_lengths() -> Response:
    """Closes the connection too: a proxy may have used the other length (RFC 9112, section 6.1)."""
    return PlainTextResponse(
        "Send Content-Length or Transfer-Encoding, not both.",
        status_code=400,
        headers={"Connection": "close"},
    )
