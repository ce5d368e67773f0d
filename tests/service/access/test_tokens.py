from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from service.access.principal import ADMIN, Principal, Scope
from service.access.tokens import TokenRegistry
from service.errors import InsufficientScope, InvalidInput, Unauthorized
from storage.errors import StateConflict
from storage.records.access import Limits
from storage.store import Store

NOW = datetime(2030, 1, 1, tzinfo=timezone.utc)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "data")
    yield store
    store.close()


@pytest.fixture
def clock() -> list[datetime]:
    return [NOW]


@pytest.fixture
def tokens(store: Store, clock: list[datetime]) -> TokenRegistry:
    return TokenRegistry(store, now=lambda: clock[0])


def create(tokens: TokenRegistry, name: str = "camera", *, asker: Principal = ADMIN, **changes):
    given = {"scopes": [Scope.PREDICT], "models": None, "limits": Limits(), "expires_at": None}
    return tokens.create(asker, name=name, **{**given, **changes})


def test_a_secret_tells_whose_it_is(tokens):
    token, secret = create(tokens, models=["digits"], limits=Limits(uploads=1))
    principal = tokens.principal(secret)
    assert (principal.id, principal.name) == (f"token {token.id}", "camera")
    assert principal.scopes == {Scope.PREDICT}
    assert (principal.models, principal.limits.uploads) == ({"digits"}, 1)


def test_no_file_of_the_store_holds_a_secret(tokens, store):
    _, secret = create(tokens)
    held = [path for path in store.data_dir.rglob("*") if path.is_file()]
    assert any(b"camera" in path.read_bytes() for path in held)
    assert not any(secret[5:].encode() in path.read_bytes() for path in held)


def test_tokens_are_known_again_after_a_restart(tokens, store):
    _, secret = create(tokens)
    assert TokenRegistry(store).principal(secret) == tokens.principal(secret)


@pytest.mark.parametrize("change", [str.upper, lambda secret: secret[:-1], lambda _: "hone_"])
def test_another_secret_is_refused(tokens, change):
    _, secret = create(tokens)
    with pytest.raises(Unauthorized, match="no token has this secret"):
        tokens.principal(change(secret))


def test_a_token_counts_until_it_expires(tokens, clock):
    _, secret = create(tokens, expires_at=NOW + timedelta(hours=1))
    assert tokens.principal(secret).expires_at == NOW + timedelta(hours=1)
    clock[0] += timedelta(hours=1)
    with pytest.raises(Unauthorized, match=r"token 1 \(camera\) expired at 2030-01-01T01:00:00"):
        tokens.principal(secret)


def test_a_revoked_token_is_refused_at_once_and_that_is_told(tokens):
    told: list[str] = []
    tokens.listen(told.append)
    token, secret = create(tokens)
    tokens.revoke(token.id)
    with pytest.raises(Unauthorized, match=r"token 1 \(camera\) was revoked"):
        tokens.principal(secret)
    assert told == ["token 1"]
    with pytest.raises(StateConflict):
        tokens.rotate(ADMIN, token.id)


def test_a_rotated_token_stays_the_same_with_another_secret(tokens):
    told: list[str] = []
    tokens.listen(told.append)
    token, old = create(tokens)
    rotated, new = tokens.rotate(ADMIN, token.id)
    assert (rotated.id, told) == (token.id, ["token 1"])
    assert tokens.principal(new).id == "token 1"
    with pytest.raises(Unauthorized, match="rotated"):
        tokens.principal(old)


def test_limits_that_were_changed_hold_at_once(tokens):
    token, secret = create(tokens)
    tokens.change(ADMIN, token.id, name="door", limits=Limits(connections=3), expires_at=None)
    principal = tokens.principal(secret)
    assert (principal.name, principal.limits.connections) == ("door", 3)


def test_nobody_makes_or_rotates_a_token_that_may_do_more(tokens):
    strong, _ = create(tokens, "strong", scopes=[Scope.BACKUP, Scope.TRAIN])
    asker = Principal("token 9", "helper", frozenset({Scope.TOKENS_ADMIN, Scope.TRAIN}))
    with pytest.raises(InsufficientScope, match="the scope backup"):
        create(tokens, asker=asker, scopes=[Scope.TRAIN, Scope.BACKUP])
    with pytest.raises(InsufficientScope, match="the scope backup"):
        tokens.rotate(asker, strong.id)
    assert create(tokens, asker=asker, scopes=[Scope.TRAIN])[0].scopes == ("train",)


LIMITED = {"limits": Limits(connections=9, uploads=2), "expires_at": NOW + timedelta(hours=5)}
"""What an asker has: nobody gets more from it."""


def an_asker(tokens: TokenRegistry) -> tuple[int, Principal]:
    scopes = [Scope.TOKENS_ADMIN, Scope.TRAIN]
    token, secret = create(tokens, "helper", scopes=scopes, **LIMITED)
    return token.id, tokens.principal(secret)


MORE = {
    "no end": {**LIMITED, "expires_at": None},
    "a later end": {**LIMITED, "expires_at": NOW + timedelta(hours=6)},
    "no limit": {**LIMITED, "limits": Limits(connections=9)},
    "a higher limit": {**LIMITED, "limits": Limits(connections=10, uploads=2)},
    "the usual limit": {**LIMITED, "limits": Limits(uploads=2)},
}


@pytest.mark.parametrize("more", MORE)
def test_nobody_gives_more_than_he_has_himself(tokens, more):
    own_id, asker = an_asker(tokens)
    strong, _ = create(tokens, "strong", scopes=[Scope.TRAIN], **MORE[more])
    weak, _ = create(tokens, "weak", scopes=[Scope.TRAIN], **LIMITED)
    with pytest.raises(InsufficientScope, match=r"token 1 \(helper\) is limited itself \("):
        create(tokens, "new", asker=asker, scopes=[Scope.TRAIN], **MORE[more])
    with pytest.raises(InsufficientScope, match="is limited itself"):
        tokens.rotate(asker, strong.id)
    for token_id in (own_id, weak.id):
        with pytest.raises(InsufficientScope, match="is limited itself"):
            tokens.change(asker, token_id, name="weak", **MORE[more])
    assert create(tokens, "new", asker=asker, scopes=[Scope.TRAIN], **LIMITED)
    assert tokens.rotate(asker, weak.id)


def test_a_token_that_may_do_more_is_not_extended_but_may_be_restricted(tokens):
    _, asker = an_asker(tokens)
    until = NOW + timedelta(hours=2)
    strong, _ = create(tokens, "strong", scopes=[Scope.BACKUP], expires_at=until)
    with pytest.raises(InsufficientScope, match="the scope backup"):
        tokens.change(
            asker, strong.id, name="strong", limits=Limits(), expires_at=until + timedelta(hours=1)
        )
    with pytest.raises(InsufficientScope, match="the scope backup"):
        tokens.change(
            asker, strong.id, name="strong", limits=Limits(connections=65), expires_at=until
        )
    sooner = NOW + timedelta(hours=1)
    changed = tokens.change(
        asker, strong.id, name="tamed", limits=Limits(connections=1), expires_at=sooner
    )
    assert (changed.name, changed.limits.connections, changed.expires_at) == ("tamed", 1, sooner)


def test_a_session_gives_what_who_signed_in_may_give_but_is_not_extended_by_it(tokens):
    session, secret = tokens.open_session(ADMIN, name="console", expires_at=LIMITED["expires_at"])
    asker = tokens.principal(secret)
    made, _ = create(tokens, "app", asker=asker, limits=Limits(connections=500))
    assert (made.expires_at, made.limits.connections) == (None, 500)
    with pytest.raises(InsufficientScope, match="is limited itself"):
        tokens.change(asker, session.id, name="console", limits=Limits(), expires_at=None)

    _, maker = an_asker(tokens)
    _, secret = tokens.open_session(maker, name="console 2", expires_at=NOW + timedelta(hours=1))
    asker = tokens.principal(secret)
    with pytest.raises(InsufficientScope, match=r"\(helper\) is limited itself"):
        create(tokens, "other", asker=asker, scopes=[Scope.TRAIN])
    assert create(tokens, "other", asker=asker, scopes=[Scope.TRAIN], **LIMITED)


@pytest.mark.parametrize("scope", [Scope.DEVICE_POLICY, Scope.BACKUP, Scope.TOKENS_ADMIN])
def test_what_concerns_the_whole_device_cannot_be_bound_to_a_model(tokens, scope):
    with pytest.raises(InvalidInput) as caught:
        create(tokens, scopes=[scope, Scope.PREDICT], models=["digits"])
    assert caught.value.problems[0].pointer == "/models"
    assert scope.value in caught.value.problems[0].detail


def test_an_end_that_is_past_is_refused(tokens):
    with pytest.raises(InvalidInput) as caught:
        create(tokens, expires_at=NOW)
    assert caught.value.problems[0].pointer == "/expires_at"
