"""Creates, checks, changes and revokes tokens of apps. Valid ones are kept in memory."""

from __future__ import annotations

import hashlib
import hmac
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import datetime

from msgspec import Struct

from service.access.principal import DEVICE_WIDE, Principal, Scope
from service.access.token_secrets import new_secret
from service.errors import InsufficientScope, InvalidInput, Unauthorized
from storage.database.codec import utc_now
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
        self._known = {token.sha256: _known(token) for token in store.tokens.list()}
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
        return self._valid(known)

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

        Raises AlreadyExists, InsufficientScope if the asker may not give all of this, InvalidInput.
        """
        wanted = frozenset(scopes)
        _refuse_unbindable(wanted, models)
        self._refuse_past(expires_at)
        _refuse_more(self._giver(asker), wanted, limits, expires_at)
        secret = new_secret()
        new = _new_token(name, secret, wanted, models, limits=limits, expires_at=expires_at)
        with self._changing:
            return self._adopt([self._store.tokens.add(new)]), secret

    def open_session(
        self, asker: Principal, *, name: str, expires_at: datetime
    ) -> tuple[Token, str]:
        """A token with the asker's rights, limits and, if it is earlier, end; and its secret.

        Raises Unauthorized if the asker is a token that has ended or changed since it asked.
        """
        secret = new_secret()
        ends = min(filter(None, (asker.expires_at, expires_at)))
        new = _new_token(
            name, secret, asker.scopes, asker.models, limits=asker.limits, expires_at=ends
        )
        with self._changing:
            known = self._of(asker.id)
            if known is not None and self._valid(known) is not asker:
                raise Unauthorized(f"{asker.described} has changed since; sign in with it again")
            whose = asker.id if known is None else known.token.session_of or asker.id
            return self._adopt([self._store.tokens.add(new, session_of=whose)]), secret

    def change(
        self,
        asker: Principal,
        id: int,  # noqa: A002
        *,
        name: str,
        limits: Limits,
        expires_at: datetime | None,
    ) -> Token:
        """Replace these fields; this ends the token's sessions if limits or end are others.

        Raises AlreadyExists, InvalidInput, NotFound, StateConflict, and InsufficientScope for more
        than the token had, unless the asker may give all that it then has.
        """
        with self._changing:
            before = self._store.tokens.get(id)
            if expires_at != before.expires_at:
                self._refuse_past(expires_at)
            if _beyond(limits, expires_at, than=before):
                giver = asker if before.session_of else self._giver(asker)
                _refuse_more(giver, _scopes(before), limits, expires_at)
            token, *sessions = self._store.tokens.change(
                id, name=name, limits=limits, expires_at=expires_at
            )
            self._adopt([token, *sessions])
        self._tell_ended(sessions)
        return token

    def rotate(self, asker: Principal, id: int) -> tuple[Token, str]:  # noqa: A002
        """Replace the secret; the old one becomes invalid, and so do the token's sessions.

        The asker must have all that the token has, since the new secret grants it. Raises as
        `create`, NotFound, StateConflict.
        """
        secret = new_secret()
        with self._changing:
            before = self._store.tokens.get(id)
            _refuse_more(self._giver(asker), _scopes(before), before.limits, before.expires_at)
            ended = self._store.tokens.rotate(id, _digest(secret))
            self._adopt(ended)
        self._tell_ended(ended)
        return ended[0], secret

    def revoke(self, id: int) -> Token:  # noqa: A002
        """Revoke a token for good, and its sessions. Raises NotFound."""
        with self._changing:
            ended = self._store.tokens.revoke(id)
            self._adopt(ended)
        self._tell_ended(ended)
        return ended[0]

    def _valid(self, known: _Known) -> Principal:
        """The principal of a token. Raises Unauthorized if it was revoked or has expired."""
        token = known.token
        if token.revoked_at is not None:
            raise Unauthorized(f"{known.principal.described} was revoked; ask for a new token")
        if token.expires_at is not None and token.expires_at <= self._now():
            ended = token.expires_at.isoformat(timespec="seconds")
            raise Unauthorized(f"{known.principal.described} expired at {ended}")
        return known.principal

    def _of(self, principal: str) -> _Known | None:
        """The token of this principal; None for the admin and for users."""
        return next((each for each in self._known.values() if each.principal.id == principal), None)

    def _giver(self, asker: Principal) -> Principal:
        """Whose rights an asker gives: in a session of the console, those of who signed in."""
        known = self._of(asker.id)
        whose = None if known is None else known.token.session_of
        if whose is None:
            return asker
        maker = self._of(whose)
        return Principal(whose, whose, asker.scopes) if maker is None else maker.principal

    def _adopt(self, tokens: Sequence[Token]) -> Token:
        """Update tokens in memory to what is stored; returns the first."""
        ids = {token.id for token in tokens}
        others = {key: known for key, known in self._known.items() if known.token.id not in ids}
        self._known = others | {token.sha256: _known(token) for token in tokens}
        return tokens[0]

    def _tell_ended(self, tokens: Iterable[Token]) -> None:
        for token in tokens:
            for listener in self._listeners:
                listener(token.principal)

    def _refuse_past(self, expires_at: datetime | None) -> None:
        if expires_at is not None and expires_at <= self._now():
            detail = "it is past; give a time to come, or none"
            title = "the token would have expired already"
            raise InvalidInput.at("/expires_at", detail, title=title)


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode()).digest()


def _known(token: Token) -> _Known:
    principal = Principal(
        id=token.principal,
        name=token.name,
        scopes=_scopes(token),
        models=None if token.models is None else frozenset(token.models),
        limits=token.limits,
        expires_at=token.expires_at,
    )
    return _Known(token, principal)


def _scopes(token: Token) -> frozenset[Scope]:
    return frozenset(map(Scope, token.scopes))


def _new_token(
    name: str,
    secret: str,
    scopes: frozenset[Scope],
    models: Collection[str] | None,
    *,
    limits: Limits,
    expires_at: datetime | None,
) -> NewToken:
    return NewToken(
        name=name,
        sha256=_digest(secret),
        scopes=tuple(scope.value for scope in Scope if scope in scopes),
        models=None if models is None else tuple(sorted(set(models))),
        limits=limits,
        expires_at=expires_at,
    )


def _refuse_unbindable(scopes: frozenset[Scope], models: Collection[str] | None) -> None:
    """Raises InvalidInput for device-wide scopes in a token bound to models."""
    wide = [scope.value for scope in Scope if scope in scopes & DEVICE_WIDE]
    if models is not None and wide:
        detail = f"{', '.join(wide)} concern the whole device; leave out models, or these scopes"
        raise InvalidInput.at("/models", detail, title="such a token cannot be bound to models")


def _refuse_more(
    giver: Principal, scopes: frozenset[Scope], limits: Limits, expires_at: datetime | None
) -> None:
    """Raises InsufficientScope if a token could do what the giver cannot, or for longer."""
    for scope in Scope:
        if scope in scopes:
            giver.require(scope)
    if giver.is_token and (beyond := _beyond(limits, expires_at, than=giver)):
        raise InsufficientScope(
            f"{giver.described} is limited itself ({', '.join(beyond)}): it gives nobody more; "
            "name such limits and such an end, or ask who has more",
            scope=Scope.TOKENS_ADMIN.value,
        )


def _beyond(limits: Limits, expires_at: datetime | None, *, than: Token | Principal) -> list[str]:
    """The limits and the end of another that these are beyond."""
    bounds = limits.bounds()
    beyond = [
        f"{name} {most:g}"
        for name, most in than.limits.bounds().items()
        if most is not None and ((asked := bounds[name]) is None or asked > most)
    ]
    ends = than.expires_at
    if ends is not None and (expires_at is None or expires_at > ends):
        beyond.append(f"expires_at {ends.isoformat(timespec='seconds')}")
    return beyond
