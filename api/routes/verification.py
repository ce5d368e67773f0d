"""Verification: all that is kept, read and compared with its digests."""

from __future__ import annotations

import asyncio

from fastapi import APIRouter

from api import present
from api.access.scopes import needs
from api.dependencies import TheDaemon
from api.openapi import answers
from api.routing import Route
from api.schemas import VerificationBody
from service.access.principal import Scope
from service.daemon import Daemon

router = APIRouter(prefix="/v1/verification", tags=["backup"], route_class=Route)


@router.get("", summary="Show the verification", responses=answers("not_ready"))
@needs(Scope.BACKUP)
async def show_verification(daemon: TheDaemon) -> VerificationBody:
    """How far it is, when all was read last, and what is known to be damaged."""
    return await _verification(daemon)


@router.post("", status_code=202, summary="Verify all that is kept", responses=answers("not_ready"))
@needs(Scope.BACKUP)
async def verify(daemon: TheDaemon) -> VerificationBody:
    """Begin to read, unless that goes on already; at 16 MiB a second, whatever the device does."""
    daemon.verification.begin()
    return await _verification(daemon)


async def _verification(daemon: Daemon) -> VerificationBody:
    progress = daemon.verification.progress
    return VerificationBody(
        running=progress.running,
        read_bytes=progress.read_bytes,
        total_bytes=progress.total_bytes,
        error=progress.error,
        verified_at=await asyncio.to_thread(daemon.store.verification.last),
        damaged=present.damage(await asyncio.to_thread(daemon.store.integrity.known)),
    )
