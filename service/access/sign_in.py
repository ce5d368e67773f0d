"""Signing in to the console: single-use codes, exchanged for short-lived tokens."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec import Struct

from service.access.principal import Principal
from service.access.token_secrets import new_secret
from service.access.tokens import TokenRegistry
from service.errors import Unauthorized
from storage.database.codec import utc_now
from storage.records.access import Token

CODE_LIFETIME_S = 60
TOKEN_LIFETIME_H = 12
MAX_CODES = 100
"""Maximum number of pending codes; a new one replaces the oldest."""


class _Waiting(Struct, frozen=True):
    asker: Principal
    expires_at: datetime


class SignIn:
    """Codes given out and not yet used, in memory only. Any thread.

    now: the clock by which they expire.
    """

    def __init__(self, tokens: TokenRegistry, *, now: Callable[[], datetime] = utc_now) -> None:
        self._tokens = tokens
        self._now = now
        self._lock = threading.Lock()
        self._waiting: dict[str, _Waiting] = {}

    def code(self, asker: Principal) -> tuple[str, datetime]:
        """A code for the asker, and when it expires."""
        code, expires_at = new_secret(), self._now() + timedelta(seconds=CODE_LIFETIME_S)
        with self._lock:
            kept = [(key, code) for key, code in self._waiting.items() if self._counts(code)]
            self._waiting = {**dict(kept[1 - MAX_CODES :]), code: _Waiting(asker, expires_at)}
        return code, expires_at

    def redeem(self, code: str) -> Principal:
        """Use up a code; returns who asked for it. Raises Unauthorized."""
        with self._lock:
            waiting = self._waiting.pop(code, None)
        if waiting is None or not self._counts(waiting):
            raise Unauthorized(
                f"this code is unknown, was used, or is older than {CODE_LIFETIME_S} s; "
                "run `honed dashboard` again, or paste a token"
            )
        return waiting.asker

    def token(self, asker: Principal) -> tuple[Token, str]:
        """A token for the console with the asker's rights, and its secret. Raises Unauthorized if
        the asker's token has ended or changed since the code was made.
        """
        return self._tokens.open_session(
            asker,
            name=f"console {secrets.token_hex(4)}",
            expires_at=self._now() + timedelta(hours=TOKEN_LIFETIME_H),
        )

    def _counts(self, waiting: _Waiting) -> bool:
        return waiting.expires_at > self._now()
