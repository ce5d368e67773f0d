"""Checkpoints: list, show, pin, delete, download."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from api import present
from api.access.auditing import note_model
from api.access.scopes import ThePrincipal, needs
from api.dependencies import Cursor, Id, Limit, TheModel, TheStore, after_id, page
from api.files import file_answer
from api.routing import Route
from api.schemas.base import Page
from api.schemas.jobs import CheckpointBody, CheckpointPatch
from service.access.principal import Scope
from storage.store import Store
from storage.versions.checkpoints import no_checkpoint

router = APIRouter(prefix="/v1", tags=["checkpoints"], route_class=Route)


async def seen_checkpoint(
    request: Request,
    checkpoint_id: Id,
    store: TheStore,
    principal: ThePrincipal,
) -> int:
    """The id in the path. Raises NotFound if its model is outside the token's restriction."""
    model = await asyncio.to_thread(_model_of, store, checkpoint_id)
    if not principal.sees(model):
        raise no_checkpoint(checkpoint_id)
    note_model(request.scope, model)
    return checkpoint_id


def _model_of(store: Store, checkpoint_id: int) -> str:
    return store.models.get_by_id(store.checkpoints.get(checkpoint_id).model_id).name


CheckpointId = Annotated[int, Depends(seen_checkpoint)]


@router.get("/models/{name}/checkpoints", summary="List checkpoints")
@needs(Scope.MODELS_READ)
def list_checkpoints(
    model: TheModel, store: TheStore, limit: Limit = 100, cursor: Cursor = None
) -> Page[CheckpointBody]:
    """Newest first."""
    rows = store.checkpoints.list(model.id, limit + 1, after_id(cursor))
    return page(rows, limit, show=lambda row: present.checkpoint(row, model))


@router.get("/checkpoints/{checkpoint_id}", summary="Show a checkpoint")
@needs(Scope.MODELS_READ)
def show_checkpoint(checkpoint_id: CheckpointId, store: TheStore) -> CheckpointBody:
    """Its job, and the step after which it was saved."""
    row = store.checkpoints.get(checkpoint_id)
    return present.checkpoint(row, store.models.get_by_id(row.model_id))


@router.patch("/checkpoints/{checkpoint_id}", summary="Pin a checkpoint")
@needs(Scope.MODELS_ADMIN)
def change_checkpoint(
    checkpoint_id: CheckpointId, patch: CheckpointPatch, store: TheStore
) -> CheckpointBody:
    """A pinned checkpoint is kept until it is deleted by hand."""
    row = store.checkpoints.update(checkpoint_id, pinned=patch.pinned, note=patch.note)
    return present.checkpoint(row, store.models.get_by_id(row.model_id))


@router.delete("/checkpoints/{checkpoint_id}", summary="Delete a checkpoint")
@needs(Scope.MODELS_ADMIN, "in_use")
async def delete_checkpoint(checkpoint_id: CheckpointId, store: TheStore) -> None:
    """Refused while a version or an unfinished job needs it."""
    await asyncio.to_thread(store.checkpoints.delete, checkpoint_id)


@router.get(
    "/checkpoints/{checkpoint_id}/content",
    summary="Download a checkpoint",
    response_class=Response,
    responses={200: {"content": {"application/octet-stream": {}}}},
)
@needs(Scope.MODELS_READ, "damaged", "range_not_satisfiable", audited="export")
def checkpoint_content(checkpoint_id: CheckpointId, request: Request, store: TheStore) -> Response:
    """The engine's checkpoint file, parameters and optimizer state."""
    row = store.checkpoints.get(checkpoint_id)
    return file_answer(
        request,
        store,
        row.file,
        media_type="application/octet-stream",
        filename=f"checkpoint-{row.id}",
    )
