"""What is recorded of a try to ask a source, and when it is asked again; nothing here waits."""

from __future__ import annotations

from datetime import datetime, timedelta

from msgspec.structs import replace

from service.follow.errors import NEWS, BaseRefused, SourceUnreachable, StatementExpired
from service.follow.statement import require_fresh
from storage.errors import HoneError
from storage.records.follows import (
    Follow,
    FollowError,
    FollowProgress,
    OfferedBase,
    Told,
)

FIRST_RETRY = timedelta(minutes=1)
MOST_DOUBLINGS = 8
MOST_CHARACTERS = 2000
"""Of an error: a source may have a say in it."""
LATER = timedelta(hours=1)
"""Before a try that the device itself prevented, by a full disk or another upgrade, is repeated."""


def offered(follow: Follow, base: OfferedBase) -> tuple[FollowProgress, list[Told]]:
    """A statement holds. Told once for each version."""
    before = follow.progress.offered
    told: list[Told] = []
    if before is None or before.version != base.version:
        data = {"version": base.version, "sha256": base.sha256, "size_bytes": base.size_bytes}
        told.append(("follow.offered", data))
    return replace(follow.progress, offered=base), told


def settled(follow: Follow, now: datetime, **changes: object) -> tuple[FollowProgress, list[Told]]:
    """All that is offered was dealt with. changes: fields, such as the answer's mark; none for the
    same answer as before, whose file stays refused if the model could not take it.

    A statement that has expired meanwhile is told as an error.
    """
    known = replace(follow.progress, **changes)
    try:
        if known.offered is not None:
            require_fresh(known.offered.version, known.offered.expires_at, now)
    except StatementExpired as expired:
        return failed(replace(follow, progress=known), expired, now)
    error = known.error
    is_still_refused = not changes and error is not None and error.code == BaseRefused.code
    kept = error if is_still_refused else None
    return replace(known, **_asked(follow, now), failures=0, error=kept), []


def failed(follow: Follow, error: HoneError, now: datetime) -> tuple[FollowProgress, list[Told]]:
    """The error, told once until it changes. The network is tried again soon, then less often."""
    known = follow.progress
    told: list[Told] = []
    shown = FollowError(error.code, error.detail[:MOST_CHARACTERS], now)
    was = known.error and (known.error.code, known.error.detail)
    if error.code in NEWS and was != (shown.code, shown.detail):
        told.append(("follow.refused", {"code": shown.code, "detail": shown.detail}))
    asked = _asked(follow, now)
    if error.code not in NEWS:
        soon = FIRST_RETRY * 2 ** min(known.failures, MOST_DOUBLINGS)
        wait = soon if error.code == SourceUnreachable.code else LATER
        asked["next_at"] = now + min(wait, follow.interval)
    failures = known.failures + 1 if error.code == SourceUnreachable.code else 0
    return replace(known, **asked, failures=failures, error=shown), told


def _asked(follow: Follow, now: datetime) -> dict[str, datetime]:
    return {"asked_at": now, "next_at": now + follow.interval}
