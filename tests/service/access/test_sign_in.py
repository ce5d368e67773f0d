from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from service.access.principal import ADMIN, Principal, Scope
from service.access.sign_in import MAX_CODES, SignIn
from service.access.tokens import TokenRegistry
from service.errors import Unauthorized
from storage.records.access import Limits
from storage.store import Store

NOW = datetime(2030, 1, 1, tzinfo=timezone.utc)
SCOPES = (Scope.TOKENS_ADMIN, Scope.MODELS_READ)


@pytest.fixture
def clock() -> list[datetime]:
    return [NOW]


@pytest.fixture
def tokens(tmp_path: Path, clock: list[datetime]) -> Iterator[TokenRegistry]:
    store = Store.open(tmp_path / "data")
    yield TokenRegistry(store, now=lambda: clock[0])
    store.close()


@pytest.fixture
def sign_in(tokens: TokenRegistry, clock: list[datetime]) -> SignIn:
    return SignIn(tokens, now=lambda: clock[0])


def a_reader(
    tokens: TokenRegistry, *, limits: Limits | None = None, expires_at: datetime | None = None
) -> tuple[int, Principal]:
    """A token that may sign in: its id and its principal."""
    token, secret = tokens.create(
        ADMIN,
        name="reader",
        scopes=SCOPES,
        models=None,
        limits=limits or Limits(),
        expires_at=expires_at,
    )
    return token.id, tokens.principal(secret)


def test_a_code_counts_once(sign_in: SignIn) -> None:
    code, _ = sign_in.code(ADMIN)

    assert sign_in.redeem(code) is ADMIN
    with pytest.raises(Unauthorized, match="was used"):
        sign_in.redeem(code)


def test_a_code_ends_after_a_minute(sign_in: SignIn, clock: list[datetime]) -> None:
    code, expires_at = sign_in.code(ADMIN)
    assert expires_at == NOW + timedelta(seconds=60)

    clock[0] = expires_at
    with pytest.raises(Unauthorized):
        sign_in.redeem(code)


def test_codes_that_nobody_uses_do_not_pile_up(sign_in: SignIn) -> None:
    codes = [sign_in.code(ADMIN)[0] for _ in range(MAX_CODES + 1)]

    with pytest.raises(Unauthorized):
        sign_in.redeem(codes[0])
    assert sign_in.redeem(codes[1]) is ADMIN


def test_a_token_may_do_what_its_asker_may_do_for_half_a_day(
    sign_in: SignIn, tokens: TokenRegistry
) -> None:
    _, reader = a_reader(tokens)
    first, _ = sign_in.token(reader)
    second, secret = sign_in.token(reader)

    assert set(second.scopes) == {"tokens:admin", "models:read"}
    assert second.expires_at == NOW + timedelta(hours=12)
    assert secret.startswith("hone_")
    assert first.name != second.name


def test_a_session_has_its_askers_limits_and_end(sign_in: SignIn, tokens: TokenRegistry) -> None:
    ends, limits = NOW + timedelta(hours=3), Limits(connections=2, bytes_per_day=10)
    _, reader = a_reader(tokens, limits=limits, expires_at=ends)
    session, secret = sign_in.token(sign_in.redeem(sign_in.code(reader)[0]))
    assert (session.limits, session.expires_at) == (limits, ends)
    again, _ = sign_in.token(tokens.principal(secret))
    assert (again.limits, again.expires_at, again.session_of) == (limits, ends, reader.id)


@pytest.mark.parametrize("how", ["revoked", "expired", "rotated", "restricted"])
def test_a_code_ends_with_the_token_that_made_it(
    sign_in: SignIn, tokens: TokenRegistry, clock: list[datetime], how: str
) -> None:
    token_id, reader = a_reader(tokens, expires_at=NOW + timedelta(seconds=30))
    code, _ = sign_in.code(reader)
    if how == "revoked":
        tokens.revoke(token_id)
    elif how == "expired":
        clock[0] += timedelta(seconds=31)
    elif how == "rotated":
        tokens.rotate(ADMIN, token_id)
    else:
        ends = NOW + timedelta(seconds=20)
        tokens.change(ADMIN, token_id, name="r", limits=Limits(), expires_at=ends)

    with pytest.raises(Unauthorized, match=r"was revoked|expired at|has changed since"):
        sign_in.token(sign_in.redeem(code))


@pytest.mark.parametrize("how", ["revoked", "rotated", "restricted"])
def test_a_session_ends_with_the_token_that_signed_in(
    sign_in: SignIn, tokens: TokenRegistry, how: str
) -> None:
    told: list[str] = []
    tokens.listen(told.append)
    token_id, reader = a_reader(tokens)
    session, secret = sign_in.token(reader)
    other, others_secret = sign_in.token(ADMIN)
    if how == "revoked":
        tokens.revoke(token_id)
    elif how == "rotated":
        tokens.rotate(ADMIN, token_id)
    else:
        tokens.change(ADMIN, token_id, name="r", limits=Limits(uploads=1), expires_at=None)

    with pytest.raises(Unauthorized, match="was revoked"):
        tokens.principal(secret)
    assert session.principal in told
    assert tokens.principal(others_secret).id == other.principal
