"""All stored data as one archive."""

from __future__ import annotations

import asyncio
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from api.access.scopes import ScopedRoute, needs
from api.dependencies import TheStore
from service.access.principal import Scope

if TYPE_CHECKING:
    from storage.backup.snapshot import Snapshot

router = APIRouter(prefix="/v1", tags=["backup"], route_class=ScopedRoute)

ZIP = "application/zip"
PAYLOAD = "Hone-Payload-Bytes"
"""The header with the total bytes of all files, from which a reader computes its progress."""


@router.get(
    "/backup",
    summary="Back up everything",
    response_class=StreamingResponse,
    responses={200: {"content": {ZIP: {}}}},
)
@needs(Scope.BACKUP, "busy", "not_ready", "storage_full", audited="export")
def back_up(store: TheStore) -> StreamingResponse:
    """A zip of the database, samples, models and checkpoints, as they are at this moment.

    `honed restore` reads it. Caches, logs and the admin token are not in it.
    """
    now = datetime.now(timezone.utc)
    return BackupAnswer(store.snapshot(), now=now)


class BackupAnswer(StreamingResponse):
    """Sends a snapshot, and releases it however that ends: a snapshot takes disk space."""

    def __init__(self, snapshot: Snapshot, *, now: datetime) -> None:
        from service.backup.backup import write_backup

        name = f"honed-{now.strftime('%Y%m%dT%H%M%SZ')}.zip"
        super().__init__(
            write_backup(snapshot, now=now),
            media_type=ZIP,
            headers={
                "Content-Disposition": f'attachment; filename="{name}"',
                "Cache-Control": "no-store",
                PAYLOAD: str(snapshot.size_bytes),
            },
        )
        self._snapshot = snapshot

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Send it."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await asyncio.to_thread(self._snapshot.close)
