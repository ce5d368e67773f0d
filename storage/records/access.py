"""Tokens, their limits, and the audit log."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Literal

from msgspec import Struct, field
from msgspec.structs import asdict

OF_TOKENS = "token "
"""Prefix of the id of a token's principal."""
USUAL_CONNECTIONS = 64
"""Concurrent requests of who has no limit of connections: others need connections too."""


class Limits(Struct, frozen=True):
    """Limits of a token, None for no limit.

    connections: concurrent requests, including event streams and long polls; None for the usual.
    uploads, registrations: concurrent ones of samples and of models. bytes_per_day: of request
    bodies, per UTC day.
    """

    connections: int | None = None
    uploads: int | None = None
    registrations: int | None = None
    predictions_per_second: float | None = None
    bytes_per_day: int | None = None

    def bounds(self) -> dict[str, float | None]:
        """Each limit by its name, None where there is none."""
        bounds: dict[str, float | None] = asdict(self)
        return {**bounds, "connections": self.connections or USUAL_CONNECTIONS}


class NewToken(Struct, frozen=True):
    """A token to be stored. sha256: of its secret, which is not stored.

    models: the names of the models that it is restricted to, None for all. expires_at: None for
    never.
    """

    name: str
    sha256: bytes
    scopes: tuple[str, ...]
    models: tuple[str, ...] | None = None
    limits: Limits = field(default_factory=Limits)
    expires_at: datetime | None = None


class Token(Struct, frozen=True):
    """A token's row. Rows are kept when a token is revoked: samples and the audit refer to it.

    used_on: the UTC day of `used_bytes`, which count towards `Limits.bytes_per_day`. session_of:
    the principal who signed in to the console with it, None for other tokens.
    """

    id: int
    name: str
    sha256: bytes
    scopes: tuple[str, ...]
    models: tuple[str, ...] | None
    limits: Limits
    created_at: datetime
    last_used_at: datetime | None = None
    expires_at: datetime | None = None
    revoked_at: datetime | None = None
    used_on: str | None = None
    used_bytes: int = 0
    session_of: str | None = None

    @property
    def principal(self) -> str:
        """Its name in samples and the audit log."""
        return f"{OF_TOKENS}{self.id}"


class TokenUse(Struct, frozen=True):
    """A token's use since that was last stored."""

    last_used_at: datetime
    used_on: str
    used_bytes: int


EntryKind = Literal["samples", "change", "export", "refusal"]


class NewEntry(Struct, frozen=True):
    """An entry of the audit log: who did what, from where.

    kind: `samples` for frequent requests that add or label samples. who: a principal's id, or
    `nobody`. action: the operation's id in OpenAPI. path: without its query. code: of a refusal.
    count: the number of such requests that the entry covers. at: None for the time of its
    transaction. facts: about data that left the device, as JSON: sizes and norms, never values.
    """

    kind: EntryKind
    who: str
    address: str
    action: str
    path: str
    model: str | None = None
    code: str | None = None
    count: int = 1
    at: datetime | None = None
    facts: str | None = None


class AuditEntry(Struct, frozen=True):
    """A row of the audit log. previous: the hash of the entry before, hash: its own."""

    id: int
    at: datetime
    kind: EntryKind
    who: str
    address: str
    action: str
    path: str
    model: str | None
    code: str | None
    count: int
    facts: dict[str, Any] | None
    previous: bytes
    hash: bytes


class AuditFilter(Struct, frozen=True):
    """Conditions that must all hold; None for no condition. until: excluded."""

    kind: EntryKind | None = None
    who: str | None = None
    action: str | None = None
    model: str | None = None
    since: datetime | None = None
    until: datetime | None = None
