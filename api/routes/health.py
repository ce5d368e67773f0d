"""Whether the daemon is alive and ready. Needs no token."""

from __future__ import annotations

from importlib.metadata import version

from fastapi import APIRouter

from api.access.scopes import ScopedRoute
from api.dependencies import TheDaemon
from api.openapi import open_answers
from api.schemas.base import Health, Readiness
from service.daemon import Daemon
from service.samples.disk_reserve import require_room
from storage.errors import StorageFull

router = APIRouter(tags=["health"], route_class=ScopedRoute)


@router.get("/healthz", summary="Alive", responses=open_answers())
async def healthz() -> Health:
    """The process answers."""
    return Health(status="ok", version=version("honed"))


@router.get("/readyz", summary="Ready to take work", responses=open_answers("not_ready"))
def readyz(daemon: TheDaemon) -> Readiness:
    """The store is open and the scheduler runs.

    `database_restored` tells of a damaged database that was replaced by a backup, `damaged` of
    samples and files that are set aside, `storage_full` of a disk without room for uploads.
    """
    return Readiness.model_validate(
        {
            "status": "ok",
            "version": version("honed"),
            "database_restored": daemon.store.restoration,
            "damaged": daemon.store.integrity.known() or None,
            "storage_full": _shortage(daemon),
        }
    )


def _shortage(daemon: Daemon) -> str | None:
    """Why uploads are refused for want of room, None if they are not."""
    reserve_bytes = daemon.settings.disk_reserve_bytes
    try:
        require_room(daemon.store.tmp_dir, reserve_bytes=reserve_bytes, incoming_bytes=1)
    except StorageFull as full:
        return full.detail
    return None
