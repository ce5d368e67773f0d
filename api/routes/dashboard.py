"""/dashboard: the console, built from dashboard/."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib import resources

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from api.access.scopes import ScopedRoute
from api.files import REVALIDATE, is_known

router = APIRouter(include_in_schema=False, route_class=ScopedRoute)

POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "frame-ancestors 'none'",
        "form-action 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
"""Only our own script, style and requests. Text never becomes markup: no trusted types."""
HEADERS = {
    "Cache-Control": REVALIDATE,
    "Content-Security-Policy": POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}


@router.get("/")
async def home() -> Response:
    """Redirects whoever opens the daemon's address to the page."""
    return RedirectResponse("/dashboard")


@router.get("/dashboard/dashboard.js")
async def dashboard_script(request: Request) -> Response:
    """Its script."""
    return _answer(request, "dashboard.js", "text/javascript")


@router.get("/dashboard/dashboard.css")
async def dashboard_style(request: Request) -> Response:
    """Its style."""
    return _answer(request, "dashboard.css", "text/css")


@router.get("/dashboard/{page:path}")
@router.get("/dashboard")
async def dashboard_page(request: Request) -> Response:
    """The page, whose script shows the place that the address names.

    It contains no data: its script requests /v1 with the token that is entered.
    """
    return _answer(request, "index.html", "text/html")


def _answer(request: Request, name: str, media_type: str) -> Response:
    content, tag = _built(name)
    headers = {**HEADERS, "ETag": tag}
    if is_known(request, tag):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=media_type, headers=headers)


@cache
def _built(name: str) -> tuple[bytes, str]:
    """A file of api/static, and its entity tag."""
    content = (resources.files("api") / "static" / name).read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()}"'
