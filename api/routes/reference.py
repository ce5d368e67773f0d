"""Reference set and base set: what versions are judged on besides the validation samples."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter, Request

from api import present, threads
from api.access.scopes import ThePrincipal, needs
from api.bodies.samples import (
    CSV,
    FORM,
    JSON,
    JSONL,
    NPZ,
    ZIP,
    TheModelWithRoom,
    add_archive,
    add_csv,
    add_files,
    add_jsonl,
    add_npz,
    add_read_json,
    read_json_body,
)
from api.bodies.uploads import require_media_type
from api.dependencies import TheDaemon, TheModel, TheStore
from api.openapi import BINARY, body
from api.routing import Route
from api.schemas.samples import BaseSetBody, BaseSetChanged, BaseSetRemoved
from api.schemas.versions import ReferenceBody
from service.access.principal import Scope
from service.daemon import Daemon
from service.samples.base_set import first_of, read_base_set, remove_base_set, require_labels
from service.samples.ingest.intake import IngestResult, UploadOptions
from storage.records.models import Model
from storage.store import Store

router = APIRouter(prefix="/v1/models/{name}", tags=["models"], route_class=Route)

FEEDS = {JSONL: add_jsonl, NPZ: add_npz, CSV: add_csv, ZIP: add_archive}
CONTENT = {
    JSON: {
        "schema": {
            "type": "object",
            "properties": {"first": {"type": "integer", "minimum": 1}},
            "description": "Or samples, as the samples' route takes them.",
        },
        "example": {"first": 500},
    },
    JSONL: {"schema": {"type": "string"}, "example": '{"text": "on my way", "label": 0}\n'},
    NPZ: BINARY,
    ZIP: BINARY,
    CSV: {"schema": {"type": "string"}, "example": "width,height,label\n0.1,0.2,cat\n"},
    FORM: {"schema": {"type": "object"}, "example": {"samples": '[{"label": "cat"}]'}},
}
MOST_OF_FIRST = 1024
"""Bytes of `{"first": N}`; a longer body holds samples."""
NOTHING: dict[str, object] = {"label": None, "key": None}
"""Parameters of files that are elsewhere in the query, but here in the form's part `samples`."""


@router.get("/reference", summary="Show the reference set")
@needs(Scope.MODELS_READ)
def show_reference(model: TheModel, store: TheStore) -> ReferenceBody:
    """Its remaining number of samples, and when it was frozen; null if there is none."""
    samples = store.references.count(model.id)
    return ReferenceBody(samples=samples, frozen_at=model.reference_frozen_at)


@router.put("/reference", summary="Freeze the reference set")
@needs(Scope.MODELS_ADMIN)
def freeze_reference(model: TheModel, store: TheStore) -> ReferenceBody:
    """Freezes the current labelled validation samples; the gate then uses them too.

    Their ids are kept, not copies: a sample that is deleted, or trains from then on, drops out.
    """
    samples = store.references.freeze(model.id)
    frozen_at = store.models.get(model.name).reference_frozen_at
    return ReferenceBody(samples=samples, frozen_at=frozen_at)


@router.delete("/reference", summary="Remove the reference set")
@needs(Scope.MODELS_ADMIN)
async def remove_reference(model: TheModel, store: TheStore) -> None:
    """The samples are kept; the gate then uses only the validation samples."""
    await asyncio.to_thread(store.references.remove, model.id)


@router.get("/base-set", summary="Show the base set")
@needs(Scope.MODELS_READ)
def show_base_set(model: TheModel, store: TheStore) -> BaseSetBody:
    """How many samples, of which labels, and since when; 0 and null if there is none."""
    return present.base_set(model, read_base_set(store, model))


@router.post(
    "/base-set", status_code=201, summary="Add to the base set", openapi_extra=body(CONTENT)
)
@needs(Scope.MODELS_ADMIN, "busy", "state_conflict", "storage_full", counted="uploads")
async def add_to_base_set(
    request: Request, daemon: TheDaemon, principal: ThePrincipal, model: TheModelWithRoom
) -> BaseSetChanged:
    """Adds samples, all or none: an archive of samples (zip), npz, CSV, JSON or a form of files.

    Or `{"first": N}` makes the first N labelled samples of the model its base set. Each needs a
    label. Samples that the model has already become the base set's.
    """
    content_type = require_media_type(request, *CONTENT)
    require_labels(model)
    options = UploadOptions(owner=principal.owner, base_set=True, masks=daemon.masks)
    result = await _added(request, daemon, model, content_type, options)
    shown = await asyncio.to_thread(_shown, daemon.store, model.name)
    return BaseSetChanged(base_set=shown, **dict(present.accepted(result, principal)))


def _shown(store: Store, name: str) -> BaseSetBody:
    """The base set as it is now."""
    model = store.models.get(name)
    return present.base_set(model, read_base_set(store, model))


async def _added(
    request: Request, daemon: Daemon, model: Model, content_type: str, options: UploadOptions
) -> IngestResult:
    if content_type in FEEDS:
        return await FEEDS[content_type](request, daemon, model, options)
    if content_type == FORM:
        return await add_files(request, daemon, model, content_type, options, about=NOTHING)
    payload = await read_json_body(request, daemon)
    if len(payload) > MOST_OF_FIRST or (first := first_of(payload)) is None:
        return await add_read_json(request, daemon, model, payload, options)
    taken = await threads.upload(request, daemon.store.base_sets.take_first, model.id, first)
    return IngestResult(accepted=0, duplicates=taken, ids=None, rejected=0, problems=())


@router.delete("/base-set", summary="Remove the base set")
@needs(Scope.MODELS_ADMIN)
async def remove_base(model: TheModel, daemon: TheDaemon) -> BaseSetRemoved:
    """Samples that were the model's before are given back; those that were sent for it are deleted.

    Jobs then replay nothing, and the gate judges by the other samples.
    """
    return BaseSetRemoved.of(await remove_base_set(daemon.store, daemon.erasure, model))
