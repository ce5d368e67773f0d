"""Each token's open requests and uploaded bytes, and its limits. Belongs to the event loop."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from service.access.principal import Principal
from service.access.tokens import TokenRegistry
from service.errors import QuotaExceeded
from storage.database.codec import utc_now
from storage.errors import HoneError
from storage.records.access import OF_TOKENS, USUAL_CONNECTIONS, Limits, Token, TokenUse
from storage.store import Store

END_AFTER_S = 1.0
"""Grace period for requests of a revoked token: one of them may be its own revocation."""
AtOnce = Literal["uploads", "registrations"]
Counted = AtOnce | Literal["predictions"]
Abort = Callable[[], None]


class Open(Struct, eq=False):
    """An open request. abort: ends it. held_bytes: how much of its body is in memory."""

    abort: Abort
    held_bytes: int = 0


class Usage:
    """The usage of one token, or of a user with a few scopes.

    opened: its open requests. used_on: the UTC day of used_bytes.
    """

    def __init__(
        self, stored: Token | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.opened: set[Open] = set()
        self.last_used_at = stored.last_used_at if stored else None
        self.used_on = stored.used_on if stored else None
        self.used_bytes = stored.used_bytes if stored else 0
        self.changed = False
        self._busy: Counter[AtOnce] = Counter()
        self._clock = clock
        self._allowance = math.inf  # a burst is what a second allows, also the first one
        self._refilled_at = clock()

    @contextmanager
    def request(self, limits: Limits, abort: Abort, *, now: datetime) -> Iterator[Open]:
        """Count a request while the block runs. Raises QuotaExceeded."""
        most = limits.connections or USUAL_CONNECTIONS
        if len(self.opened) >= most:
            raise QuotaExceeded(_at_once("requests", most), retry_after_s=1)
        self.last_used_at, self.changed = now, True
        opened = Open(abort)
        self.opened.add(opened)
        try:
            yield opened
        finally:
            self.opened.remove(opened)

    def hold(self, opened: Open, most_bytes: int, held_bytes: int) -> None:
        """Note how much of a request's body is in memory, until the request ends.

        Raises QuotaExceeded if all bodies together have more than most_bytes.
        """
        opened.held_bytes = held_bytes
        if sum(request.held_bytes for request in self.opened) > most_bytes:
            raise QuotaExceeded(
                f"bodies of this token's requests have at most {most_bytes} bytes together while "
                "they are in memory; send fewer at once, or samples as application/x-npz",
                retry_after_s=1,
            )

    @contextmanager
    def within(self, counted: Counted, limits: Limits) -> Iterator[None]:
        """Count a request against the limit of its kind. Raises QuotaExceeded."""
        if counted == "predictions":
            self._take_prediction(limits.predictions_per_second)
            yield
            return
        limit = limits.uploads if counted == "uploads" else limits.registrations
        if limit is not None and self._busy[counted] >= limit:
            raise QuotaExceeded(_at_once(counted, limit), retry_after_s=1)
        self._busy[counted] += 1
        try:
            yield
        finally:
            self._busy[counted] -= 1

    def require_room(self, announced_bytes: int, limit: int, *, now: datetime) -> None:
        """Raises QuotaExceeded if a body of this length exceeds what is left of the day's limit."""
        used = self.used_bytes if self.used_on == _day(now) else 0
        if used + announced_bytes > limit:
            midnight = datetime.combine(now.date() + timedelta(days=1), datetime.min.time())
            left_s = (midnight.replace(tzinfo=timezone.utc) - now).total_seconds()
            raise QuotaExceeded(
                f"this token may send {limit} bytes a day (bytes_per_day) and has sent {used}; "
                "the day ends at midnight UTC",
                retry_after_s=math.ceil(left_s),
            )

    def sent(self, count: int, limit: int, *, now: datetime) -> None:
        """Count bytes of a body. Raises QuotaExceeded."""
        self.require_room(count, limit, now=now)
        if self.used_on != _day(now):
            self.used_on, self.used_bytes = _day(now), 0
        self.used_bytes += count

    def _take_prediction(self, per_second: float | None) -> None:
        """Allow bursts of one second's requests, and at least one request."""
        now = self._clock()
        if per_second is None:
            return
        most = max(1.0, per_second)
        grown = self._allowance + (now - self._refilled_at) * per_second
        self._allowance, self._refilled_at = min(most, grown), now
        if self._allowance < 1:
            raise QuotaExceeded(
                f"this token's predictions_per_second is {per_second:g}",
                retry_after_s=math.ceil((1 - self._allowance) / per_second),
            )
        self._allowance -= 1


class Usages:
    """The usage of every token and user but administrators; that of tokens is saved periodically.

    A crash loses what was counted since the last `save`.
    """

    def __init__(self, store: Store, tokens: TokenRegistry) -> None:
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._stored = {token.principal: token for token in store.tokens.list()}
        self._usages: dict[str, Usage] = {}
        tokens.listen(self._hand_over)

    def of(self, principal: Principal) -> Usage:
        """The usage of a principal; a token's continues from what is stored."""
        usage = self._usages.get(principal.id)
        if usage is None:
            usage = self._usages[principal.id] = Usage(self._stored.pop(principal.id, None))
        return usage

    def shown(self, token: Token) -> Token:
        """A token with its last use, even if that is not stored yet."""
        usage = self._usages.get(token.principal)
        return token if usage is None else replace(token, last_used_at=usage.last_used_at)

    async def save(self) -> None:
        """Store what has changed. What cannot be stored is kept for the next time."""
        uses, saved = {}, []
        for name, usage in self._usages.items():
            if name.startswith(OF_TOKENS) and usage.changed and usage.last_used_at is not None:
                usage.changed = False
                saved.append(usage)
                day = usage.used_on or _day(utc_now())
                token_id = int(name.removeprefix(OF_TOKENS))
                uses[token_id] = TokenUse(usage.last_used_at, day, usage.used_bytes)
        if not uses:
            return
        try:
            await asyncio.to_thread(self._store.tokens.note_use, uses)
        except HoneError:
            for usage in saved:
                usage.changed = True
            raise

    def _hand_over(self, principal: str) -> None:
        self._loop.call_soon_threadsafe(self._end_soon, principal)

    def _end_soon(self, principal: str) -> None:
        """Soon abort the open requests of a token whose secret is invalid."""
        usage = self._usages.get(principal)
        if usage is not None:
            self._loop.call_later(END_AFTER_S, _cut, usage, tuple(usage.opened))


def _cut(usage: Usage, requests: tuple[Open, ...]) -> None:
    for opened in requests:
        if opened in usage.opened:
            opened.abort()


def _day(now: datetime) -> str:
    return now.date().isoformat()


def _at_once(what: str, limit: int) -> str:
    name = "connections" if what == "requests" else what
    return f"your limit of {what} at once is {limit} ({name}); wait until one has ended"
