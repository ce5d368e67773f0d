"""All stored data as one archive."""

from __future__ import annotations

import asyncio
import logging
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from fastapi import APIRouter
from fastapi.responses import StreamingResponse
from starlette.types import Message, Receive, Send
from starlette.types import Scope as AsgiScope

from api.access.scopes import ScopedRoute, needs
from api.dependencies import TheStore
from api.protocol import ABORT
from service.access.principal import Scope
from service.logs import event

if TYPE_CHECKING:
    from storage.backup.snapshot import Snapshot

router = APIRouter(prefix="/v1", tags=["backup"], route_class=ScopedRoute)
logger = logging.getLogger(__name__)

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
    """Sends a snapshot, and releases it however that ends.

    stalled_s: a reader that receives nothing for this long is cut off: a snapshot takes disk space.
    """

    stalled_s = 60.0

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
        """Send it, unless the reader stalls."""

        async def send_soon(message: Message) -> None:
            await asyncio.wait_for(send(message), self.stalled_s)

        try:
            await super().__call__(scope, receive, send_soon)
        except asyncio.TimeoutError:
            event(logger, logging.WARNING, "backup.reader_stalled", after_s=self.stalled_s)
            scope["extensions"][ABORT]["abort"]()
        finally:
            await asyncio.to_thread(self._snapshot.close)
