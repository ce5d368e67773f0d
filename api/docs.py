"""/openapi.json, and /docs: Swagger UI served by the device itself, without internet."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import re
from importlib import resources

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from api.dependencies import TheDaemon
from service.processes.children import Children
from service.processes.exits import describe_exit

ASSETS = "/docs/assets"
INLINE_SCRIPT = re.compile(r"<script>(.*?)</script>", re.DOTALL)


def install(app: FastAPI) -> None:
    """Serve the page, and its script and style from the fastapi-swagger package."""
    folder = resources.files("fastapi_swagger") / "resources"
    app.mount(ASSETS, StaticFiles(directory=str(folder)), name="docs-assets")

    described: list[bytes] = []
    one_at_a_time = asyncio.Lock()

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(daemon: TheDaemon) -> Response:
        async with one_at_a_time:
            if not described:
                described.append(await _description(daemon.children))
        return Response(described[0], media_type="application/json")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        page = _page()
        page.headers["Content-Security-Policy"] = _policy(bytes(page.body).decode())
        return page


def _page() -> HTMLResponse:
    """The page, which stores no token: a browser would keep it after the page is closed."""
    return get_swagger_ui_html(
        openapi_url="/openapi.json",
        title="Hone: HTTP API",
        swagger_js_url=f"{ASSETS}/swagger-ui-bundle.js",
        swagger_css_url=f"{ASSETS}/swagger-ui.css",
        swagger_favicon_url=f"{ASSETS}/favicon-32x32.png",
        swagger_ui_parameters={"persistAuthorization": False, "docExpansion": "list"},
    )


def _policy(page: str) -> str:
    """The CSP: our files and the page's script; Swagger UI has inline styles and pictures."""
    scripts = [hashlib.sha256(text.encode()).digest() for text in INLINE_SCRIPT.findall(page)]
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in scripts)
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' {hashes}",
            "style-src 'self' 'unsafe-inline'",
            "connect-src 'self'",
            "img-src 'self' data:",
            "base-uri 'none'",
            "frame-ancestors 'none'",
            "form-action 'none'",
        )
    )


async def _description(children: Children) -> bytes:
    """The OpenAPI description, built by a child: it takes about 7 MB that are never freed."""
    process = await children.spawn("api.description")
    text, errors = await process.communicate()
    if process.returncode:
        words = errors.decode(errors="replace").strip()
        raise RuntimeError(f"api.description {describe_exit(process.returncode)}: {words}")
    return text
