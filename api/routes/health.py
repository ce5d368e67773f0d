"""Is it alive, does it take work? No token is needed."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter

from api.dependencies import TheDaemon
from api.openapi import open_answers
from api.schemas import Health

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Alive", responses=open_answers())
async def healthz() -> Health:
    """The process answers."""
    return Health(status="ok", version=version("honed"))


@router.get("/readyz", summary="Ready to take work", responses=open_answers("not_ready"))
async def readyz(_: TheDaemon) -> Health:
    """The store is open and the trainer runs."""
    return Health(status="ok", version=version("honed"))
