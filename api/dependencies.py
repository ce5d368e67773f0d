"""Dependencies of routes: the daemon's parts, the model in the path, the requested page."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Annotated, TypeVar

from fastapi import Depends, Path, Query, Request

from api.schemas.base import Page
from service.daemon import Daemon
from service.errors import InvalidInput
from storage.records.models import Model
from storage.store import Store

Row = TypeVar("Row")
Body = TypeVar("Body")


async def daemon_of(request: Request) -> Daemon:
    """The running daemon. Raises NotReady while it starts or stops."""
    daemon: Daemon = request.app.state.daemon
    daemon.require_ready()
    return daemon


TheDaemon = Annotated[Daemon, Depends(daemon_of)]


async def store_of(daemon: TheDaemon) -> Store:
    """The store of the running daemon."""
    return daemon.store


TheStore = Annotated[Store, Depends(store_of)]


def model_of(name: str, store: TheStore) -> Model:
    """The model named in the path. Raises NotFound."""
    return store.models.get(name)


TheModel = Annotated[Model, Depends(model_of)]


async def known_model(name: str, daemon: TheDaemon) -> Model:
    """As `model_of`, but needs neither a thread nor the database unless the model has changed.

    Its sample counts may be stale.
    """
    return (await daemon.latest.get(name)).model


KnownModel = Annotated[Model, Depends(known_model)]

Id = Annotated[int, Path(ge=1, lt=2**63)]
"""An id in a path, or the number of a version."""
Limit = Annotated[int, Query(ge=1, le=1000, description="Maximum number of items of this page.")]
Cursor = Annotated[
    str | None, Query(max_length=100, description="`next` of the page before; none for the first.")
]


def after_id(cursor: str | None) -> int | None:
    """The id in a numeric cursor. Raises InvalidInput if it is not a cursor."""
    if cursor is None:
        return None
    if not cursor.isdecimal() or len(cursor) > 18:
        detail = "pass `next` of the page before, unchanged"
        raise InvalidInput.at("/query/cursor", detail, title="the cursor is wrong")
    return int(cursor)


def page(
    rows: Sequence[Row],
    limit: int,
    *,
    show: Callable[[Row], Body],
    cursor: Callable[[Row], object] = attrgetter("id"),
) -> Page[Body]:
    """A page of rows; rows: up to limit + 1, where the extra one shows that there are more."""
    more = len(rows) > limit
    shown = rows[:limit]
    return Page(items=[show(row) for row in shown], next=str(cursor(shown[-1])) if more else None)
