"""Creates, checks, changes and revokes tokens of apps. Valid ones are kept in memory."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Callable, Collection
from datetime import datetime

from msgspec import Struct

from service.access.principal import DEVICE_WIDE, OF_TOKENS, Principal, Scope
from service.access.token_secrets import new_secret
from service.errors import InvalidInput, Unauthorized
from storage.database.codec import utc_now
from storage.errors import Problem
from storage.records.access import Limits, NewToken, Token
from storage.store import Store

Listener = Callable[[str], None]


class _Known(Struct, frozen=True):
    token: Token
    principal: Principal


class TokenRegistry:
    """The tokens of one store. Methods that change a token block; `principal` does not.

    now: the clock by which tokens expire.
    """

    def __init__(self, store: Store, *, now: Callable[[], datetime] = utc_now) -> None:
        self._store = store
        self._now = now
        self._changing = threading.Lock()
        self._known = {each.sha256: _known(each) for each in store.tokens.list()}
        self._listeners: tuple[Listener, ...] = ()

    def listen(self, listener: Listener) -> None:
        """Call `listener` with a principal's id when its secret becomes invalid. Any thread."""
        self._listeners = (*self._listeners, listener)

    def principal(self, secret: str) -> Principal:
        """Whose secret this is. Raises Unauthorized."""
        digest = _digest(secret)
        known = self._known.get(digest)
        # The lookup's timing reveals only digests, from which no secret can be found.
        if known is None or not hmac.compare_digest(known.token.sha256, digest):
            raise Unauthorized("no token has this secret; it may have been rotated")
        token = known.token
        if token.revoked_at is not None:
            raise Unauthorized(f"{known.principal.described} was revoked; ask for a new token")
        if token.expires_at is not None and token.expires_at <= self._now():
            ended = token.expires_at.isoformat(timespec="seconds")
            raise Unauthorized(f"{known.principal.described} expired at {ended}")
        return known.principal

    def create(
        self,
        asker: Principal,
        *,
        name: str,
        scopes: Collection[Scope],
        models: Collection[str] | None,
        limits: Limits,
        expires_at: datetime | None,
    ) -> tuple[Token, str]:
        """A new token and its secret, which cannot be read again.

        Raises AlreadyExists, InsufficientScope if the asker lacks one of the scopes, InvalidInput.
        """
        wanted = frozenset(scopes)
        _refuse_unbindable(wanted, models)
        self._refuse_past(expires_at)
        _refuse_more(asker, wanted)
        secret = new_secret()
        new = NewToken(
            name=name,
            sha256=_digest(secret),
            scopes=tuple(each.value for each in Scope if each in wanted),
            models=None if models is None else tuple(sorted(set(models))),
            limits=limits,
            expires_at=expires_at,
        )
        with self._changing:
            return self._adopt(self._store.tokens.add(new)), secret

    def change(
        self,
        id: int,  # noqa: A002
        *,
        name: str,
        limits: Limits,
        expires_at: datetime | None,
    ) -> Token:
        """Replace these fields. Raises AlreadyExists, InvalidInput, NotFound, StateConflict."""
        with self._changing:
            before = self._store.tokens.get(id)
            if expires_at != before.expires_at:
                self._refuse_past(expires_at)
            return self._adopt(
                self._store.tokens.change(id, name=name, limits=limits, expires_at=expires_at)
            )

    def rotate(self, asker: Principal, id: int) -> tuple[Token, str]:  # noqa: A002
        """Replace the secret; the old one becomes invalid. Raises as `create`, NotFound,
        StateConflict.

        The asker must have all rights of the token, since the new secret grants them.
        """
        secret = new_secret()
        with self._changing:
            before = self._store.tokens.get(id)
            _refuse_more(asker, frozenset(map(Scope, before.scopes)))
            token = self._adopt(self._store.tokens.rotate(id, _digest(secret)))
        self._tell_ended(token)
        return token, secret

    def revoke(self, id: int) -> Token:  # noqa: A002
        """Revoke a token for good. Raises NotFound."""
        with self._changing:
            token = self._adopt(self._store.tokens.revoke(id))
        self._tell_ended(token)
        return token

    def _adopt(self, token: Token) -> Token:
        """Update the token in memory to what is stored."""
        others = {key: each for key, each in self._known.items() if each.token.id != token.id}
        self._known = {**others, token.sha256: _known(token)}
        return token

    def _tell_ended(self, token: Token) -> None:
        for listener in self._listeners:
            listener(principal_id(token.id))

    def _refuse_past(self, expires_at: datetime | None) -> None:
        if expires_at is not None and expires_at <= self._now():
            problem = Problem("/expires_at", "it is past; give a time to come, or none")
            raise InvalidInput("the token would have expired already", problems=[problem])


def principal_id(token_id: int) -> str:
    """The token's name in samples and the audit log."""
    return f"{OF_TOKENS}{token_id}"


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _known(token: Token) -> _Known:
    principal = Principal(
        id=principal_id(token.id),
        name=token.name,
        scopes=frozenset(map(Scope, token.scopes)),
        models=None if token.models is None else frozenset(token.models),
        limits=token.limits,
        expires_at=token.expires_at,
    )
    return _Known(token, principal)


def _refuse_unbindable(scopes: frozenset[Scope], models: Collection[str] | None) -> None:
    """Raises InvalidInput for device-wide scopes in a token bound to models."""
    wide = [each.value for each in Scope if each in scopes & DEVICE_WIDE]
    if models is not None and wide:
        detail = f"{', '.join(wide)} concern the whole device; leave out models, or these scopes"
        raise InvalidInput(
            "such a token cannot be bound to models", problems=[Problem("/models", detail)]
        )


def _refuse_more(asker: Principal, scopes: frozenset[Scope]) -> None:
    """Raises InsufficientScope if a token could do what the asker cannot."""
    for each in Scope:
        if each in scopes:
            asker.require(each)
