"""A model's whole data set: archive, duplicates, drift, and what a version was trained on."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from fastapi.responses import StreamingResponse

from api import present, threads
from api.access.scopes import ThePrincipal, needs
from api.bodies.samples import ZIP, TheModelWithRoom, add_archive
from api.bodies.uploads import require_media_type
from api.dependencies import Cursor, Id, Limit, TheDaemon, TheModel, TheStore, after_id
from api.openapi import BINARY, body
from api.routes.uploads import AllowDuplicates
from api.routing import Route
from api.schemas.base import Page
from api.schemas.samples import DriftBody, DuplicatesBody, SamplesAccepted, SeenBody, SeenSample
from service.access.principal import Scope
from service.samples.ingest.intake import UploadOptions

router = APIRouter(prefix="/v1/models/{name}", tags=["samples"], route_class=Route)


@router.get(
    "/samples/archive",
    summary="Export all samples",
    response_class=StreamingResponse,
    responses={200: {"content": {ZIP: {}}}},
)
@needs(Scope.SAMPLES_READ, audited="export")
def export_samples(model: TheModel, store: TheStore) -> StreamingResponse:
    """A zip of all samples with key, label, split and pin, for import on any device.

    Damaged samples are left out, and listed in it.
    """
    from service.samples.archive import write_archive

    headers = {"Content-Disposition": f'attachment; filename="{model.name}-samples.zip"'}
    return StreamingResponse(write_archive(store, model), media_type=ZIP, headers=headers)


@router.post(
    "/samples/archive",
    status_code=201,
    summary="Import samples",
    openapi_extra=body({ZIP: BINARY}),
)
@needs(Scope.SAMPLES_WRITE, "busy", "storage_full", counted="uploads")
async def import_samples(
    request: Request,
    daemon: TheDaemon,
    principal: ThePrincipal,
    model: TheModelWithRoom,
    allow_duplicates: AllowDuplicates = False,
) -> SamplesAccepted:
    """All or nothing. A key that the model already has is a duplicate, not an error."""
    require_media_type(request, ZIP)
    options = UploadOptions(
        allow_duplicates=allow_duplicates, owner=principal.owner, masks=daemon.masks
    )
    result = await add_archive(request, daemon, model, options)
    if result.evicted:
        await threads.upload(request, daemon.store.eraser.erase_at_rest, model.id)
    return present.accepted(result, principal)


@router.get("/samples/duplicates", summary="Find duplicates")
@needs(Scope.SAMPLES_READ)
def list_duplicates(
    model: TheModel,
    store: TheStore,
    limit: Annotated[int, Query(ge=1, le=1000, description="Maximum number of groups.")] = 100,
) -> Page[DuplicatesBody]:
    """Groups of samples with the same content, ordered by their first sample. One page."""
    groups = store.sample_stats.duplicates(model.id, limit)
    return Page(items=[DuplicatesBody(sha256=digest, ids=ids) for digest, ids in groups], next=None)


@router.get("/drift", summary="Compare recent inputs")
@needs(Scope.MODELS_READ, "child_died")
async def show_drift(model: TheModel, daemon: TheDaemon) -> DriftBody:
    """Whether the newest samples are distributed as those that `latest` was trained on."""
    return present.drift(await daemon.drift.report(model), model)


@router.get("/versions/{number}/samples", summary="List the samples that a version was trained on")
@needs(Scope.SAMPLES_READ)
def samples_of_version(
    number: Id,
    model: TheModel,
    store: TheStore,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> SeenBody:
    """Those of its job and of all jobs that it started from, including deleted samples."""
    version = store.versions.get(model.id, number)
    seen = None if version.job_id is None else store.lineage.by(version.job_id)
    if seen is None:
        return SeenBody(total=0 if version.job_id is None else None, items=[], next=None)
    rest = seen[seen > (after_id(cursor) or 0)]
    ids = rest[:limit].tolist()
    known = store.samples.by_ids(model.id, ids)
    return SeenBody(
        total=len(seen),
        items=[SeenSample(id=sample_id, deleted=sample_id not in known) for sample_id in ids],
        next=str(ids[-1]) if len(rest) > limit else None,
    )
