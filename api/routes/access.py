"""Tokens: made, listed, changed, rotated, revoked; and the audit log."""

from __future__ import annotations

import asyncio
from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import StreamingResponse
from msgspec.structs import replace

from api import present
from api.access.auditing import recorded_change
from api.access.scopes import ThePrincipal, needs
from api.dependencies import Cursor, Id, Limit, TheDaemon, TheStore, after_id, page
from api.openapi import open_answers
from api.protocol import PRINCIPAL
from api.routing import Route
from api.schemas.access import (
    AuditBody,
    CodeBody,
    NewTokenBody,
    SignInRequest,
    TokenBody,
    TokenPatch,
    TokenRequest,
)
from api.schemas.base import Page, Time
from service.access.principal import Scope
from storage.records.access import AuditFilter, EntryKind, Limits

router = APIRouter(prefix="/v1", tags=["tokens"], route_class=Route)

JSON_LINES = "application/jsonl"
NO_STORE = {"Cache-Control": "no-store"}


@router.post("/tokens", status_code=201, summary="Make a token")
@needs(Scope.TOKENS_ADMIN, "already_exists", "busy")
def make_token(
    daemon: TheDaemon, principal: ThePrincipal, request: TokenRequest, response: Response
) -> NewTokenBody:
    """The answer holds the secret, which nobody can read again: only its digest is stored.

    Nobody can give away scopes, limits or time that he does not have.
    """
    token, secret = daemon.tokens.create(
        principal,
        name=request.name,
        scopes=request.scopes,
        models=request.models,
        limits=Limits(**request.limits.model_dump()),
        expires_at=request.expires_at,
    )
    response.headers.update({"Location": f"/v1/tokens/{token.id}", **NO_STORE})
    return NewTokenBody.of(token, secret=secret)


@router.get("/tokens", summary="List tokens")
@needs(Scope.TOKENS_ADMIN)
def list_tokens(
    store: TheStore, daemon: TheDaemon, limit: Limit = 100, cursor: Cursor = None
) -> Page[TokenBody]:
    """Oldest first, revoked and expired ones too. The admin token is a file, and not listed."""
    rows = store.tokens.list(limit=limit + 1, after=after_id(cursor) or 0)
    shown = daemon.usages.shown
    return page(rows, limit, show=lambda row: TokenBody.of(shown(row)))


@router.get("/tokens/{token_id}", summary="Show a token")
@needs(Scope.TOKENS_ADMIN)
def show_token(token_id: Id, store: TheStore, daemon: TheDaemon) -> TokenBody:
    """Scopes, models, limits; when it was used last."""
    return TokenBody.of(daemon.usages.shown(store.tokens.get(token_id)))


@router.patch("/tokens/{token_id}", summary="Change a token")
@needs(Scope.TOKENS_ADMIN, "already_exists", "state_conflict")
def change_token(
    token_id: Id, patch: TokenPatch, daemon: TheDaemon, principal: ThePrincipal
) -> TokenBody:
    """Changes name, limits or end, at once. For other scopes or models make another token.

    More than the token had gives only who has all that it then has.
    """
    known = daemon.store.tokens.get(token_id)
    changes = patch.model_fields_set
    limits = patch.limits.model_dump(exclude_unset=True) if patch.limits else {}
    changed = daemon.tokens.change(
        principal,
        token_id,
        name=patch.name or known.name,
        limits=replace(known.limits, **limits),
        expires_at=patch.expires_at if "expires_at" in changes else known.expires_at,
    )
    return TokenBody.of(daemon.usages.shown(changed))


@router.delete("/tokens/{token_id}", summary="Revoke a token")
@needs(Scope.TOKENS_ADMIN)
def revoke_token(token_id: Id, daemon: TheDaemon) -> None:
    """For good, at once; its open requests end within seconds, and its sessions of the console. It
    stays in the list.
    """
    daemon.tokens.revoke(token_id)


@router.post("/tokens/{token_id}/rotate", summary="Rotate a token")
@needs(Scope.TOKENS_ADMIN, "state_conflict")
def rotate_token(
    token_id: Id, daemon: TheDaemon, principal: ThePrincipal, response: Response
) -> NewTokenBody:
    """A new secret, shown once; the old one counts no longer. The samples it added stay its own.

    Nobody can rotate a token that has scopes, limits or time that he does not have.
    """
    token, secret = daemon.tokens.rotate(principal, token_id)
    response.headers.update(NO_STORE)
    return NewTokenBody.of(token, secret=secret)


@router.post("/sign-in/codes", status_code=201, summary="Make a code")
@needs(Scope.TOKENS_ADMIN)
def make_code(daemon: TheDaemon, principal: ThePrincipal, response: Response) -> CodeBody:
    """For `POST /v1/sign-in`, once and within a minute; `honed dashboard` asks for one."""
    code, expires_at = daemon.sign_in.code(principal)
    response.headers.update(NO_STORE)
    return CodeBody(code=code, expires_at=expires_at)


@router.post(
    "/sign-in",
    status_code=201,
    summary="Sign in",
    responses=open_answers("invalid_input", "unauthorized"),
)
async def sign_in(
    daemon: TheDaemon, asked: SignInRequest, request: Request, response: Response
) -> NewTokenBody:
    """A token of twelve hours that may do what who made the code may do, within the same limits and
    until the same end. Needs no token.
    """
    asker = request.scope[PRINCIPAL] = daemon.sign_in.redeem(asked.code)
    with recorded_change(request.scope, "change"):
        token, secret = await asyncio.to_thread(daemon.sign_in.token, asker)
    response.headers.update(NO_STORE)
    return NewTokenBody.of(token, secret=secret)


@router.get("/audit", summary="Read the audit log")
@needs(Scope.TOKENS_ADMIN)
def read_audit(
    store: TheStore,
    kind: Annotated[EntryKind | None, Query(description="Entries of this kind only.")] = None,
    who: Annotated[
        str | None, Query(max_length=64, description="`admin`, `token 3`, `uid 1000`, `nobody`.")
    ] = None,
    action: Annotated[
        str | None, Query(max_length=64, description="An operation's id, as `delete_model`.")
    ] = None,
    model: Annotated[str | None, Query(max_length=64, description="What concerns it.")] = None,
    since: Annotated[Time | None, Query(description="From this time on.")] = None,
    until: Annotated[Time | None, Query(description="Before this time.")] = None,
    limit: Limit = 100,
    cursor: Cursor = None,
) -> Page[AuditBody]:
    """Newest first: every change, refusal and export; who, what, when, from which address."""
    where = AuditFilter(kind=kind, who=who, action=action, model=model, since=since, until=until)
    rows = store.audit.list(where, limit=limit + 1, before=after_id(cursor))
    return page(rows, limit, show=present.audit_entry)


@router.get(
    "/audit/export",
    summary="Export the audit log",
    response_class=StreamingResponse,
    responses={200: {"content": {JSON_LINES: {}}}},
)
@needs(Scope.TOKENS_ADMIN)
def export_audit(
    store: TheStore,
    after: Annotated[int, Query(ge=0, lt=2**63, description="The last id that you have.")] = 0,
) -> StreamingResponse:
    """Oldest first, an entry a line. A line ends with its `hash`: the SHA-256 of the line without
    `,"hash":"…"`. `previous` is the hash of the entry before.
    """
    return StreamingResponse(store.audit.export(after=after), media_type=JSON_LINES)
