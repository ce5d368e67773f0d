"""Reference sets: frozen validation samples, so that versions can be compared after months."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter

from api.access.scopes import needs
from api.dependencies import TheModel, TheStore
from api.openapi import answers
from api.routing import Route
from api.schemas import ReferenceBody
from service.access.principal import Scope

router = APIRouter(prefix="/v1/models/{name}/reference", tags=["models"], route_class=Route)


@router.get("", summary="Show the reference set", responses=answers("not_found"))
@needs(Scope.MODELS_READ)
def show_reference(model: TheModel, store: TheStore) -> ReferenceBody:
    """Its remaining number of samples, and when it was frozen; null if there is none."""
    samples = store.references.count(model.id)
    return ReferenceBody(samples=samples, frozen_at=model.reference_frozen_at)


@router.put("", summary="Freeze the reference set", responses=answers("not_found"))
@needs(Scope.MODELS_ADMIN)
def freeze_reference(model: TheModel, store: TheStore) -> ReferenceBody:
    """Freezes the current labelled validation samples; the gate then uses them too.

    Their ids are kept, not copies: a sample that is deleted, or trains from then on, drops out.
    """
    samples = store.references.freeze(model.id)
    frozen_at = store.models.get(model.name).reference_frozen_at
    return ReferenceBody(samples=samples, frozen_at=frozen_at)


@router.delete(
    "", status_code=204, summary="Remove the reference set", responses=answers("not_found")
)
@needs(Scope.MODELS_ADMIN)
async def remove_reference(model: TheModel, store: TheStore) -> None:
    """The samples are kept; the gate then uses only the validation samples."""
    await asyncio.to_thread(store.references.remove, model.id)
