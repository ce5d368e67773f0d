"""Checkpoints: list, show, pin, delete, download."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Path, Request
from starlette.responses import Response

from api import present
from api.dependencies import Cursor, Limit, TheModel, TheStore, after_id, page
from api.files import file_answer
from api.openapi import answers
from api.routing import Route
from api.schemas import CheckpointBody, CheckpointPatch, Page

router = APIRouter(prefix="/v1", tags=["checkpoints"], route_class=Route)

CheckpointId = Annotated[int, Path(ge=1, lt=2**63)]


@router.get(
    "/models/{name}/checkpoints",
    summary="List checkpoints",
    responses=answers("not_found"),
)
def list_checkpoints(
    model: TheModel, store: TheStore, limit: Limit = 100, cursor: Cursor = None
) -> Page[CheckpointBody]:
    """Newest first."""
    rows = store.checkpoints.list(model.id, limit + 1, after_id(cursor))
    return page(
        rows, limit, cursor=lambda row: row.id, show=lambda row: present.checkpoint(row, model)
    )


@router.get(
    "/checkpoints/{checkpoint_id}", summary="Show a checkpoint", responses=answers("not_found")
)
def show_checkpoint(checkpoint_id: CheckpointId, store: TheStore) -> CheckpointBody:
    """Its job, and the step after which it was saved."""
    row = store.checkpoints.get(checkpoint_id)
    return present.checkpoint(row, store.models.get_by_id(row.model_id))


@router.patch(
    "/checkpoints/{checkpoint_id}",
    summary="Pin a checkpoint",
    responses=answers("not_found"),
)
def change_checkpoint(
    checkpoint_id: CheckpointId, patch: CheckpointPatch, store: TheStore
) -> CheckpointBody:
    """A pinned checkpoint is kept until it is deleted by hand."""
    row = store.checkpoints.update(checkpoint_id, pinned=patch.pinned, note=patch.note)
    return present.checkpoint(row, store.models.get_by_id(row.model_id))


@router.delete(
    "/checkpoints/{checkpoint_id}",
    status_code=204,
    summary="Delete a checkpoint",
    responses=answers("not_found", "in_use"),
)
async def delete_checkpoint(checkpoint_id: CheckpointId, store: TheStore) -> None:
    """Refused while a version or an unfinished job needs it."""
    await asyncio.to_thread(store.checkpoints.delete, checkpoint_id)


@router.get(
    "/checkpoints/{checkpoint_id}/content",
    summary="Download a checkpoint",
    response_class=Response,
    responses={
        200: {"content": {"application/octet-stream": {}}},
        **answers("not_found", "range_not_satisfiable"),
    },
)
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
