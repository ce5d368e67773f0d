"""Live events as server-sent events (WHATWG HTML, section 9.2), and past ones as pages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Annotated

from fastapi import APIRouter, Header, Query, Request
from pydantic import BeforeValidator
from starlette.responses import Response, StreamingResponse

from api.access.scopes import ThePrincipal, needs
from api.dependencies import Cursor, Limit, TheDaemon, TheStore, after_id, page
from api.protocol import ABORT
from api.routing import Route
from api.schemas.base import EventBody, Page
from service.access.principal import Scope
from service.daemon import Daemon
from service.events import LOST, replay
from storage.database.codec import dump
from storage.database.transaction import Happening

router = APIRouter(prefix="/v1", tags=["events"], route_class=Route)

MEDIA_TYPE = "text/event-stream"
RETRY_MS = 1000
"""How long a reader waits before it reconnects."""
OR_EMPTY = BeforeValidator(lambda value: value or None)
"""As a reader sends that has received no id."""
After = Annotated[
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
    after: After = None,
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
    headers = {"Content-Type": MEDIA_TYPE, "Cache-Control": "no-store"}
    return StreamingResponse(_stream(request, daemon, wants, seen=seen), headers=headers)


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


async def _stream(
    request: Request, daemon: Daemon, wants: Callable[[Happening], bool], *, seen: int | None
) -> AsyncIterator[str]:
    """Old events from the store, then new ones from the feed, until the reader falls behind or the
    daemon stops. seen: the last id that the reader has, None for new events only.
    """
    abort, size = request.scope["extensions"][ABORT]["abort"], daemon.settings.event_queue_size
    with daemon.feed.reader(wants, size=size, on_drop=abort) as reader:
        if seen is None:
            seen = await asyncio.to_thread(daemon.store.events.last_id)
            yield f"retry: {RETRY_MS}\nid: {seen}\n\n"
        else:
            yield f"retry: {RETRY_MS}\n\n"
            async for covered, stored in replay(daemon.store, after=seen):
                if reader.ended:
                    return
                seen = covered
                yield _frames(filter(wants, stored))
        while not reader.ended:
            taken = await reader.take(timeout_s=daemon.settings.event_heartbeat_s)
            fresh = (event for event in taken if event.id is None or event.id > seen)
            yield _frames(fresh) or ": still here\n\n"


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
