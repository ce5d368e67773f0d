"""The installation: what the daemon runs on, and verification of all stored data."""

from __future__ import annotations

import asyncio
from datetime import datetime, timezone

from fastapi import APIRouter

from api.access.scopes import needs
from api.dependencies import TheDaemon
from api.routing import Route
from api.schemas.base import VerificationBody
from api.schemas.device import BackupBody, CheckBody, SystemBody
from service.access.principal import Scope
from service.daemon import Daemon

router = APIRouter(prefix="/v1", tags=["backup"], route_class=Route)


@router.get("/system", summary="Show the installation")
@needs(Scope.DEVICE_POLICY, "busy", "not_ready")
async def show_system(daemon: TheDaemon) -> SystemBody:
    """Versions of what the daemon runs on, and what `honed doctor` finds from within it: all checks
    that neither train nor write. They are made in a process of their own, at most once a minute.
    """
    installation = await daemon.inspector.look()
    now = datetime.now(timezone.utc)
    backups = await asyncio.to_thread(daemon.store.backups.made, now)
    return SystemBody(
        versions=dict(installation.versions),
        data_dir=str(daemon.settings.data_dir),
        checks=[CheckBody.of(check) for check in installation.checks],
        backups=[BackupBody(made_at=at, size_bytes=size) for at, size in backups],
    )


@router.get("/verification", summary="Show the verification")
@needs(Scope.BACKUP, "not_ready")
async def show_verification(daemon: TheDaemon) -> VerificationBody:
    """How far it is, when all was read last, and what is known to be damaged."""
    return await _verification(daemon)


@router.post("/verification", status_code=202, summary="Verify all that is kept")
@needs(Scope.BACKUP, "not_ready")
async def verify(daemon: TheDaemon) -> VerificationBody:
    """Begin to read, unless that goes on already; at 16 MiB a second, whatever the device does."""
    daemon.verification.begin()
    return await _verification(daemon)


async def _verification(daemon: Daemon) -> VerificationBody:
    progress = daemon.verification.progress
    return VerificationBody.of(
        progress,
        verified_at=await asyncio.to_thread(daemon.store.verification.last),
        damaged=await asyncio.to_thread(daemon.store.integrity.known) or None,
    )
