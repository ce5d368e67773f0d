"""Whether a signed statement may be taken, and by which devices."""

from __future__ import annotations

import hashlib
from datetime import datetime

from service.follow.errors import SignatureRefused, StatementExpired, VersionDowngraded
from service.follow.statement import Statement
from storage.records.follows import OfferedBase


def judged(
    statement: Statement, *, name: str, seen: OfferedBase | None, now: datetime
) -> OfferedBase:
    """What it offers. seen: the newest offer that was judged before.

    Raises SignatureRefused for another model's statement, StatementExpired, VersionDowngraded.
    """
    if statement.name != name:
        raise SignatureRefused(
            f"the statement is for the model {statement.name!r}, and {name!r} is followed; set "
            '"name" if the vendor calls the model so'
        )
    require_fresh(statement.version, statement.expires_at, now)
    if seen is not None:
        _require_newer(statement, seen)
    return OfferedBase(
        version=statement.version,
        sha256=statement.model.sha256,
        size_bytes=statement.size_bytes,
        expires_at=statement.expires_at,
        percent=statement.percent,
    )


def require_fresh(version: int, expires_at: datetime, now: datetime) -> None:
    """Raises StatementExpired: whoever keeps newer statements from a device is found out so."""
    if expires_at <= now:
        raise StatementExpired(
            f"the statement of version {version} expired on {expires_at:%Y-%m-%d %H:%M} UTC: the "
            "vendor has not renewed it, or someone keeps newer ones from this device"
        )


def draw(identity: str, model: str) -> float:
    """A number from 0 to 100, always the same for a device and a model, evenly spread."""
    digest = hashlib.sha256(f"{identity}\n{model}".encode()).digest()
    return int.from_bytes(digest[:6], "big") / 2**48 * 100


def is_chosen(drawn: float, *, of_operator: float, of_vendor: float) -> bool:
    """Whether a device takes part in a rollout: both shares must take it."""
    return drawn < min(of_operator, of_vendor)


def _require_newer(statement: Statement, seen: OfferedBase) -> None:
    if statement.version < seen.version:
        raise VersionDowngraded(
            f"the source offers version {statement.version}, and has offered {seen.version} "
            "before; versions only rise"
        )
    if statement.version == seen.version and statement.model.sha256 != seen.sha256:
        raise VersionDowngraded(
            f"version {statement.version} was the file {seen.sha256} before, and is now "
            f"{statement.model.sha256}; another file needs a higher version"
        )
