"""Versions and delivery: what apps fetch."""

from __future__ import annotations

import asyncio
import hashlib
import time
from asyncio import FIRST_COMPLETED
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from starlette.responses import Response

from api import present
from api.access.scopes import needs
from api.dependencies import Cursor, Id, Limit, TheDaemon, TheModel, TheStore, after_id, page
from api.files import IMMUTABLE, REVALIDATE, file_answer, is_known
from api.openapi import KNOWN, file_answers
from api.routing import Route
from api.schemas.base import Page
from api.schemas.versions import ComparisonBody, VersionBody
from api.waiting import client_of
from service.access.principal import Scope
from service.daemon import Daemon
from service.models.version_comparison import MOST_SAMPLES
from storage.records.versions import VARIANTS, VariantName, Version

router = APIRouter(prefix="/v1/models/{name}", tags=["versions"], route_class=Route)

MEDIA_TYPE = "application/onnx"
CONTENT: dict[str, Any] = {MEDIA_TYPE: {}} | {kind.media_type: {} for kind in VARIANTS.values()}
Wait = Annotated[
    float,
    Query(ge=0, le=300, description="Seconds to wait for one that If-None-Match does not name."),
]
VariantAsked = Annotated[
    VariantName | None,
    Query(
        description="Another form of the model: "
        + " or ".join(f"{name} ({kind.described})" for name, kind in VARIANTS.items())
        + ". Made when first asked for."
    ),
]
MostSamples = Annotated[
    int, Query(ge=0, le=MOST_SAMPLES, description="Maximum number of samples of each side.")
]
Answer = Callable[[], Awaitable[Response]]
FILE = file_answers(CONTENT, "The inference model.")
FAULTS = ("damaged", "range_not_satisfiable", "variant_not_ready", "variant_refused")


@router.get("/versions", summary="List versions")
@needs(Scope.MODELS_READ)
def list_versions(
    model: TheModel, store: TheStore, limit: Limit = 100, cursor: Cursor = None
) -> Page[VersionBody]:
    """Newest first; version 1 is the model as registered."""
    rows = store.versions.list(model.id, limit + 1, after_id(cursor))
    return page(rows, limit, cursor=lambda row: row.version, show=present.version)


@router.get("/versions/{number}", summary="Show a version")
@needs(Scope.MODELS_READ)
def show_version(number: Id, model: TheModel, store: TheStore) -> VersionBody:
    """Its metrics, aliases, and whether and why it was promoted."""
    return present.version(store.versions.get(model.id, number))


@router.get("/versions/{number}/comparison/{other}", summary="Compare two versions")
@needs(Scope.MODELS_READ, "busy", "child_died")
async def compare_versions(
    number: Id, other: Id, model: TheModel, daemon: TheDaemon, limit: MostSamples = 100
) -> ComparisonBody:
    """Both are measured on today's labelled validation samples, `number` before and `other` after.

    Also tells which samples changed sides. Takes as long as both need to run; the answer is kept
    while the samples stay the same.
    """
    return present.comparison(model, await daemon.versions.compare(model, number, other), limit)


@router.get(
    "/versions/{number}/model.onnx",
    summary="Download a version",
    response_class=Response,
    responses=FILE,
)
@needs(Scope.MODELS_READ, *FAULTS, audited="export")
async def version_file(
    number: Id,
    name: str,
    request: Request,
    daemon: TheDaemon,
    variant: VariantAsked = None,
) -> Response:
    """The inference model; it never changes."""
    latest = await daemon.latest.get(name)
    version = latest.version
    if version.version != number:
        find = daemon.store.versions.get
        version = await asyncio.to_thread(find, latest.model.id, number)
    return await _file(request, daemon, version, variant, cache_control=IMMUTABLE)


@router.get(
    "/latest",
    summary="Show the newest promoted version",
    response_model=VersionBody,
    responses=KNOWN,
)
@needs(Scope.MODELS_READ)
async def show_latest(name: str, request: Request, daemon: TheDaemon, wait: Wait = 0) -> Response:
    """What `latest` names now. Its ETag is of this answer, not of the model's file."""

    async def answer() -> Response:
        latest = await daemon.latest.get(name)
        body = present.version(latest.version).model_dump_json().encode()
        tag = f'"{hashlib.sha256(body).hexdigest()}"'
        headers = {"ETag": tag, "Cache-Control": REVALIDATE}
        if is_known(request, tag):
            return Response(status_code=304, headers=headers)
        return Response(body, media_type="application/json", headers=headers)

    return await _newer(answer, name, request, daemon, wait_s=wait)


@router.get(
    "/latest/model.onnx",
    summary="Download the newest promoted version",
    response_class=Response,
    responses=FILE,
)
@needs(Scope.MODELS_READ, *FAULTS, audited="export")
async def latest_file(
    name: str,
    request: Request,
    daemon: TheDaemon,
    wait: Wait = 0,
    variant: VariantAsked = None,
) -> Response:
    """What apps fetch: `If-None-Match` costs next to nothing, `?wait=` waits for a newer one."""

    async def answer() -> Response:
        latest = await daemon.latest.get(name)
        return await _file(request, daemon, latest.version, variant, cache_control=REVALIDATE)

    return await _newer(answer, name, request, daemon, wait_s=wait)


async def _newer(
    answer: Answer, name: str, request: Request, daemon: Daemon, *, wait_s: float
) -> Response:
    """The first answer that is not a 304, or the 304 after the timeout or when the daemon stops."""
    if not wait_s:
        return await answer()
    deadline = time.monotonic() + wait_s
    async with client_of(request) as leaving:
        while True:
            with daemon.latest.change(name) as changed:
                response = await answer()
                left_s = deadline - time.monotonic()
                if response.status_code != 304 or left_s <= 0 or daemon.latest.closed:
                    return response
                await asyncio.wait({changed, leaving}, timeout=left_s, return_when=FIRST_COMPLETED)
            if leaving.done():
                return response


async def _file(
    request: Request,
    daemon: Daemon,
    version: Version,
    variant: VariantName | None,
    *,
    cache_control: str,
) -> Response:
    """The model's file, or the variant's, which is made if there is none yet."""
    file = version.file if variant is None else await daemon.variants.file(version, variant)
    media_type = MEDIA_TYPE if variant is None else VARIANTS[variant].media_type
    suffix = ".onnx" if variant is None else VARIANTS[variant].suffix
    return file_answer(
        request,
        daemon.store,
        file,
        media_type=media_type,
        filename=f"{version.model}-{version.version}{suffix}",
        cache_control=cache_control,
        created_at=version.created_at,
    )
