"""Tokens: who may do what. Only the digests of their secrets are stored."""

from __future__ import annotations

import builtins
from collections.abc import Mapping
from datetime import datetime

from msgspec.structs import replace

from storage.database.codec import dump_time
from storage.database.connection import sqlite3
from storage.database.repository import Repository, writes
from storage.database.rows import columns, record
from storage.database.transaction import Transaction
from storage.errors import AlreadyExists, NotFound, StateConflict
from storage.records.access import Limits, NewToken, Token, TokenUse

_END_SESSIONS = """
UPDATE tokens SET revoked_at = ? WHERE session_of = ? AND revoked_at IS NULL RETURNING *
"""
_TAKEN = "SELECT id FROM tokens WHERE name = ? AND revoked_at IS NULL AND id <> ?"
_GIVEN = ("name", "sha256", "scopes", "models", "limits", "expires_at")
_NOTE_USE = "UPDATE tokens SET last_used_at = ?, used_on = ?, used_bytes = ? WHERE id = ?"


class Tokens(Repository):
    """Tokens by id. A revoked one stays as a row, and never becomes valid again."""

    @writes
    def add(
        self, transaction: Transaction, new: NewToken, *, session_of: str | None = None
    ) -> Token:
        """Raises AlreadyExists if a token that is not revoked has the name."""
        _refuse_taken(transaction, new.name)
        values = {
            **columns(new, _GIVEN),
            "created_at": dump_time(transaction.now),
            "session_of": session_of,
        }
        return record(Token, transaction.insert("tokens", values))

    def get(self, id: int) -> Token:  # noqa: A002
        """Raises NotFound."""
        return self._readers.read(_find, id)

    def list(self, *, limit: int = -1, after: int = 0) -> builtins.list[Token]:
        """Tokens by id, revoked ones too; after: the previous page's last id. limit: -1 for all."""
        rows = self._readers.all(
            "SELECT * FROM tokens WHERE id > ? ORDER BY id LIMIT ?", (after, limit)
        )
        return [record(Token, row) for row in rows]

    @writes
    def change(
        self,
        transaction: Transaction,
        id: int,  # noqa: A002
        *,
        name: str,
        limits: Limits,
        expires_at: datetime | None,
    ) -> builtins.list[Token]:
        """Replace these fields; returns the token, and the sessions that other limits or another
        end end. Raises NotFound, AlreadyExists, StateConflict if revoked.
        """
        before = _find_valid(transaction.connection, id)
        _refuse_taken(transaction, name, but=id)
        changed = replace(before, name=name, limits=limits, expires_at=expires_at)
        values = columns(changed, ("name", "limits", "expires_at"))
        transaction.update("tokens", values, where={"id": id})
        token = _find(transaction.connection, id)
        is_same = (limits, expires_at) == (before.limits, before.expires_at)
        return [token] if is_same else _with_ended_sessions(transaction, token)

    @writes
    def rotate(self, transaction: Transaction, id: int, sha256: bytes) -> builtins.list[Token]:  # noqa: A002
        """Replace its secret; returns it, and the sessions that this ends. Raises NotFound, and
        StateConflict for a revoked token.
        """
        _find_valid(transaction.connection, id)
        transaction.execute("UPDATE tokens SET sha256 = ? WHERE id = ?", (sha256, id))
        return _with_ended_sessions(transaction, _find(transaction.connection, id))

    @writes
    def revoke(self, transaction: Transaction, id: int) -> builtins.list[Token]:  # noqa: A002
        """Revoke it for good; a revoked one is left unchanged. Returns it, and the sessions that
        this ends. Raises NotFound.
        """
        transaction.execute(
            "UPDATE tokens SET revoked_at = coalesce(revoked_at, ?) WHERE id = ?",
            (dump_time(transaction.now), id),
        )
        return _with_ended_sessions(transaction, _find(transaction.connection, id))

    def note_use(self, uses: Mapping[int, TokenUse]) -> None:
        """Store when tokens were last used, and how many bytes they sent that day."""
        rows = [
            (dump_time(use.last_used_at), use.used_on, use.used_bytes, token_id)
            for token_id, use in uses.items()
        ]
        self._writer.write(lambda transaction: transaction.executemany(_NOTE_USE, rows))


def _with_ended_sessions(transaction: Transaction, token: Token) -> list[Token]:
    """The token, and its sessions, which are revoked."""
    parameters = (dump_time(transaction.now), token.principal)
    ended = transaction.execute(_END_SESSIONS, parameters).fetchall()
    return [token, *(record(Token, row) for row in ended)]


def _refuse_taken(transaction: Transaction, name: str, *, but: int = 0) -> None:
    row = transaction.execute(_TAKEN, (name, but)).fetchone()
    if row is not None:
        raise AlreadyExists(
            f"token {row['id']} is named {name!r}; revoke it or choose another name"
        )


def _find(connection: sqlite3.Connection, token_id: int) -> Token:
    row = connection.execute("SELECT * FROM tokens WHERE id = ?", (token_id,)).fetchone()
    if row is None:
        raise NotFound(f"there is no token {token_id}; GET /v1/tokens lists them")
    return record(Token, row)


def _find_valid(connection: sqlite3.Connection, token_id: int) -> Token:
    token = _find(connection, token_id)
    if token.revoked_at is not None:
        raise StateConflict(f"token {token_id} is revoked for good; make a new one")
    return token
