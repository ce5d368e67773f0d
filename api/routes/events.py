"""Live events as server-sent events (WHATWG HTML, section 9.2), and past ones as pages."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from pydantic import BeforeValidator
from starlette.responses import Response
from starlette.types import Receive, Send
from starlette.types import Scope as AsgiScope

from api.access.scopes import ThePrincipal, needs
from api.dependencies import Cursor, Limit, TheDaemon, TheStore, after_id, page
from api.protocol import ABORT
from api.routing import Route
from api.schemas.base import EventBody, Page
from api.waiting import client_of
from service.access.principal import Scope
from service.daemon import Daemon
from service.events import LOST, Reader, replay
from storage.database.codec import dump
from storage.database.transaction import Happening

router = APIRouter(prefix="/v1", tags=["events"], route_class=Route)

MEDIA_TYPE = "text/event-stream"
RETRY_MS = 1000
"""How long a reader waits before it reconnects."""
OR_EMPTY = BeforeValidator(lambda value: value or None)
"""As a reader sends that has received no id."""
Id = Annotated[
    int | None,
    Query(alias="last_event_id", ge=0, lt=2**63, description="As the header."),
    OR_EMPTY,
]
LastEventId = Annotated[
    int | None,
    Header(ge=0, lt=2**63, description="The last id received; later events follow."),
    OR_EMPTY,
]
MOST_VALUES = 100
"""Of a filter: SQLite has a limit of a thousand alternatives."""
Models = Annotated[
    list[str] | None, Query(max_length=MOST_VALUES, description="Events of these models only.")
]
Types = Annotated[
    list[str] | None,
    Query(max_length=MOST_VALUES, description="Types with one of these prefixes, such as `job.`."),
]


@router.get(
    "/events",
    summary="Follow what happens",
    response_class=Response,
    responses={200: {"content": {MEDIA_TYPE: {}}}},
)
@needs(Scope.MODELS_READ, "not_ready")
async def follow_events(
    request: Request,
    daemon: TheDaemon,
    principal: ThePrincipal,
    model: Models = None,
    type: Types = None,  # noqa: A002
    last_event_id: LastEventId = None,
    after: Id = None,
) -> Response:
    """Each has `id`, `event` (its type) and `data` (JSON). Without a last id: from now on.

    A token that is bound to models is told of these, and of nothing else.
    """
    models, types = frozenset(model or ()), tuple(type or ())
    for name in models:
        principal.require(Scope.MODELS_READ, name)

    def wants(happened: Happening) -> bool:
        return (
            (principal.sees(happened.model) or happened.type == LOST)
            and (not models or happened.model in models)
            and (not types or happened.type.startswith(types))
        )

    seen = after if last_event_id is None else last_event_id
    return EventStream(request, daemon, wants, after=seen)


@router.get("/events/history", summary="List what has happened")
@needs(Scope.MODELS_READ, "not_ready")
def list_events(
    store: TheStore,
    principal: ThePrincipal,
    model: Models = None,
    type: Types = None,  # noqa: A002
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[EventBody]:
    """Newest first, as far as they are kept. A token that is bound to models sees these alone."""
    for name in model or ():
        principal.require(Scope.MODELS_READ, name)
    rows = store.events.newest(
        types=type or (),
        models=model or principal.models,
        limit=limit + 1,
        before=after_id(cursor),
    )
    return page(rows, limit, show=EventBody.of)


class EventStream(Response):
    """Sends a reader its events until it disconnects, falls behind, or the daemon stops.

    after: the last id that the reader has seen, None for new events only.
    """

    def __init__(
        self,
        request: Request,
        daemon: Daemon,
        wants: Callable[[Happening], bool],
        *,
        after: int | None,
    ) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers({"Content-Type": MEDIA_TYPE, "Cache-Control": "no-store"})
        self._request = request
        self._daemon = daemon
        self._wants = wants
        self._after = after

    async def __call__(self, scope: AsgiScope, receive: Receive, send: Send) -> None:
        """Send old events from the store, then new ones from the feed."""
        del receive
        abort = scope["extensions"][ABORT]["abort"]
        size = self._daemon.settings.event_queue_size
        with self._daemon.feed.reader(self._wants, size=size, on_drop=abort) as reader:
            async with client_of(self._request) as leaving:
                leaving.add_done_callback(lambda _: reader.end())
                await send(
                    {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
                )
                await self._stream(reader, send)
        await send({"type": "http.response.body", "body": b""})

    async def _stream(self, reader: Reader, send: Send) -> None:
        seen = self._after
        if seen is None:
            seen = await asyncio.to_thread(self._daemon.store.events.last_id)
            await _send(send, f"retry: {RETRY_MS}\nid: {seen}\n\n")
        else:
            await _send(send, f"retry: {RETRY_MS}\n\n")
            async for covered, stored in replay(self._daemon.store, after=seen):
                if reader.ended:
                    return
                seen = covered
                await _send(send, _frames(filter(self._wants, stored)))
        while not reader.ended:
            taken = await reader.take(timeout_s=self._daemon.settings.event_heartbeat_s)
            fresh = (event for event in taken if event.id is None or event.id > seen)
            await _send(send, _frames(fresh) or ": still here\n\n")


async def _send(send: Send, text: str) -> None:
    await send({"type": "http.response.body", "body": text.encode(), "more_body": True})


def _frames(happenings: Iterable[Happening]) -> str:
    return "".join(map(_frame, happenings))


def _frame(happened: Happening) -> str:
    data = {
        "id": happened.id,
        "type": happened.type,
        "model": happened.model,
        "created_at": happened.created_at.isoformat().replace("+00:00", "Z"),
        "data": happened.data,
    }
    id_line = "" if happened.id is None else f"id: {happened.id}\n"
    return f"{id_line}event: {happened.type}\ndata: {dump(data)}\n\n"
