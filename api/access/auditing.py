"""Audit log entries for requests: who requested what, from where, and the outcome.

No query is kept, nor anything of a body, so no samples, labels, keys or secrets get in.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal
from urllib.parse import quote

from starlette.types import Message, Scope, Send

from api.protocol import AUDIT_FACTS, AUDIT_MODEL, ENDS, IS_HEAD, METHODS, PEER_UID, PRINCIPAL
from service.access.principal import Principal, of_user
from service.daemon import Daemon
from service.models.specification import NAME
from storage.database.audit_chain import Pending, about, begin
from storage.records.access import EntryKind, NewEntry

MAX_PATH = 256
OTHER_PLACE, OTHER_METHOD = "(another path)", "(another method)"
How = Literal["samples", "change", "export"]


def note_refusal(scope: Scope, code: str) -> None:
    """Count a request that was refused for lack of permission."""
    _daemon(scope).audit.note(_entry(scope, "refusal", code=code))


def note_model(scope: Scope, model: str) -> None:
    """Make the request's entry one of this model, which its path does not name."""
    scope[AUDIT_MODEL] = model
    about(model)


@contextmanager
def recorded_change(scope: Scope, kind: EntryKind) -> Iterator[Pending]:
    """Make the first write of the block store an entry."""
    pending = begin(_entry(scope, kind))
    try:
        yield pending
    finally:
        pending.is_done = True


def telling_change(scope: Scope, send: Send, pending: Pending) -> Send:
    """Wrap `send` to store a change's entry before its answer, if no write has stored it."""

    async def send_told(message: Message) -> None:
        if message["type"] == "http.response.start" and not pending.is_done:
            pending.is_done = True
            if message["status"] < 400:
                await asyncio.to_thread(_daemon(scope).store.audit.add, [pending.entry])
        await send(message)

    return send_told


def telling_export(scope: Scope, send: Send) -> Send:
    """Wrap `send` to count an answer with content."""
    if IS_HEAD in scope:
        return send

    async def send_told(message: Message) -> None:
        if message["type"] == "http.response.start" and message["status"] in (200, 206):
            _daemon(scope).audit.note(_entry(scope, "export"))
        await send(message)

    return send_told


def _entry(scope: Scope, kind: EntryKind, *, code: str | None = None) -> NewEntry:
    principal: Principal | None = scope.get(PRINCIPAL)
    route = scope.get("route")
    return NewEntry(
        kind=kind,
        who=principal.id if principal else _nobody(scope),
        address=_address(scope),
        action=route.name if route is not None else _method(scope),
        path=_path(scope, kind) if principal is not None else _place(scope),
        model=_model(scope) if principal is not None else None,
        code=code,
        facts=scope.get(AUDIT_FACTS),
    )


def _model(scope: Scope) -> str | None:
    """The name in the path, if a model can have it, or what `note_model` has told."""
    name = scope.get(AUDIT_MODEL) or scope.get("path_params", {}).get("name", "")
    return name if NAME.fullmatch(name) else None


def _method(scope: Scope) -> str:
    method: str = scope["method"]
    return method if method in METHODS else OTHER_METHOD


def _path(scope: Scope, kind: EntryKind) -> str:
    """The path as clients send it, so in ASCII; without the id of an exported sample, so that reads
    of many make one entry.
    """
    path = quote(scope["path"], safe=":/@!$&'()*+,;=~")
    sample_id = scope.get("path_params", {}).get("sample_id")
    if kind == "export" and sample_id is not None:
        path = path.replace(f"/samples/{sample_id}/", "/samples/{sample_id}/")
    return path[:MAX_PATH]


def _place(scope: Scope) -> str:
    """The beginning of the path, if a route begins with it: arbitrary paths are not kept."""
    begun = "/".join(scope["path"].split("/")[:3])
    return begun if begun in scope["app"].state.places else OTHER_PLACE


def _nobody(scope: Scope) -> str:
    """A client without a principal; the kernel tells the user at the other end of a Unix socket."""
    peer = scope["extensions"].get(PEER_UID)
    return of_user(peer["uid"]) if peer else "nobody"


def _address(scope: Scope) -> str:
    peer = scope["extensions"][ENDS]["peer"]
    if PEER_UID in scope["extensions"]:
        return "socket"
    return str(peer[0]) if peer else "unknown"


def _daemon(scope: Scope) -> Daemon:
    daemon: Daemon = scope["app"].state.daemon
    return daemon
