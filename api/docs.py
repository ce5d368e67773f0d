"""/openapi.json, and /docs: Swagger UI from the device itself, no internet."""

from __future__ import annotations

import json
from functools import cache
from importlib import resources

from fastapi import FastAPI
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.responses import HTMLResponse, Response
from starlette.staticfiles import StaticFiles

from api.openapi import describe
from service import allocator

ASSETS = "/docs/assets"


def install(app: FastAPI) -> None:
    """Serve the page and its script and style, which the fastapi-swagger package holds."""
    folder = resources.files("fastapi_swagger") / "resources"
    app.mount(ASSETS, StaticFiles(directory=str(folder)), name="docs-assets")

    @cache
    def description() -> bytes:
        text = json.dumps(describe(app), ensure_ascii=False, separators=(",", ":"))
        allocator.trim()
        return text.encode()

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response:
        return Response(description(), media_type="application/json")

    @app.get("/docs", include_in_schema=False)
    async def docs() -> HTMLResponse:
        return get_swagger_ui_html(
            openapi_url="/openapi.json",
            title="Hone: HTTP API",
            swagger_js_url=f"{ASSETS}/swagger-ui-bundle.js",
            swagger_css_url=f"{ASSETS}/swagger-ui.css",
            swagger_favicon_url=f"{ASSETS}/favicon-32x32.png",
            swagger_ui_parameters={"persistAuthorization": True, "docExpansion": "list"},
        )
