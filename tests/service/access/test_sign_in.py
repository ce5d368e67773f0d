from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from service.access.principal import ADMIN, Principal, Scope
from service.access.sign_in import MAX_CODES, SignIn
from service.access.tokens import TokenRegistry
from service.errors import Unauthorized
from storage.store import Store

NOW = datetime(2030, 1, 1, tzinfo=timezone.utc)
READER = Principal("token 7", "reader", frozenset({Scope.TOKENS_ADMIN, Scope.MODELS_READ}))


@pytest.fixture
def clock() -> list[datetime]:
    return [NOW]


@pytest.fixture
def sign_in(tmp_path: Path, clock: list[datetime]) -> Iterator[SignIn]:
    store = Store.open(tmp_path / "data")
    yield SignIn(TokenRegistry(store, now=lambda: clock[0]), now=lambda: clock[0])
    store.close()


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


def test_a_token_may_do_what_its_asker_may_do_for_half_a_day(sign_in: SignIn) -> None:
    first, _ = sign_in.token(READER)
    second, secret = sign_in.token(READER)

    assert set(second.scopes) == {"tokens:admin", "models:read"}
    assert second.expires_at == NOW + timedelta(hours=12)
    assert secret.startswith("hone_")
    assert first.name != second.name
