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
FILES = {"dashboard.js": "text/javascript", "dashboard.css": "text/css"}
"""Media types of what the page loads."""
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


@router.get("/dashboard/{place:path}")
@router.get("/dashboard")
async def dashboard_page(request: Request) -> Response:
    """Its script or style, or the page, whose script shows the place that the address names.

    It contains no data: its script requests /v1 with the token that is entered.
    """
    place = request.path_params.get("place")
    name = place if place in FILES else "index.html"
    content, tag = _built(name)
    headers = {**HEADERS, "ETag": tag}
    if is_known(request, tag):
        return Response(status_code=304, headers=headers)
    return Response(content, media_type=FILES.get(name, "text/html"), headers=headers)


@cache
def _built(name: str) -> tuple[bytes, str]:
    """A file of api/static, and its entity tag."""
    content = (resources.files("api") / "static" / name).read_bytes()
    return content, f'"{hashlib.sha256(content).hexdigest()}"'
