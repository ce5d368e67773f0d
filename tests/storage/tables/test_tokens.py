from __future__ import annotations

from datetime import datetime, timezone

import pytest

from storage.errors import AlreadyExists, NotFound, StateConflict
from storage.records.access import Limits, NewToken, TokenUse

SOME_DAY = datetime(2031, 5, 1, 12, tzinfo=timezone.utc)


def new(name="camera", **changes):
    return NewToken(**{"name": name, "sha256": name.encode().ljust(32), "scopes": (), **changes})


def test_a_token_comes_back_as_it_was_made(store):
    limits = Limits(uploads=2, predictions_per_second=0.5)
    given = new(scopes=("predict",), models=("digits",), limits=limits, expires_at=SOME_DAY)
    made = store.tokens.add(given)
    assert store.tokens.get(made.id) == made
    assert (made.scopes, made.models, made.limits) == (("predict",), ("digits",), limits)
    assert (made.expires_at, made.last_used_at, made.revoked_at) == (SOME_DAY, None, None)


def test_two_valid_tokens_have_two_names_and_a_revoked_one_gives_its_name_free(store):
    first = store.tokens.add(new())
    with pytest.raises(AlreadyExists, match=rf"token {first.id} is named 'camera'; revoke it"):
        store.tokens.add(new(sha256=bytes(32)))
    store.tokens.revoke(first.id)
    assert store.tokens.add(new(sha256=bytes(32))).id > first.id


def test_a_revoked_token_stays_in_the_list_and_cannot_come_back(store):
    token = store.tokens.add(new())
    (ended,) = store.tokens.revoke(token.id)
    assert ended.revoked_at is not None
    assert store.tokens.revoke(token.id) == [ended]
    assert store.tokens.list() == [ended]
    with pytest.raises(StateConflict, match="revoked for good"):
        store.tokens.rotate(token.id, bytes(32))
    with pytest.raises(StateConflict, match="revoked for good"):
        store.tokens.change(token.id, name="new", limits=Limits(), expires_at=None)


def test_a_token_that_there_is_not_is_not_found(store):
    for ask in (store.tokens.get, store.tokens.revoke):
        with pytest.raises(NotFound, match="no token 7; GET /v1/tokens lists"):
            ask(7)


def test_tokens_are_listed_by_page(store):
    ids = [store.tokens.add(new(str(number))).id for number in range(3)]
    assert [each.id for each in store.tokens.list(limit=2)] == ids[:2]
    assert [each.id for each in store.tokens.list(after=ids[0])] == ids[1:]


def test_what_changes_is_the_name_the_limits_and_the_end(store):
    token = store.tokens.add(new(scopes=("train",)))
    (changed,) = store.tokens.change(
        token.id, name="door", limits=Limits(connections=1), expires_at=SOME_DAY
    )
    assert (changed.name, changed.limits.connections, changed.expires_at) == ("door", 1, SOME_DAY)
    assert (changed.sha256, changed.scopes) == (token.sha256, ("train",))


@pytest.mark.parametrize("change", ["revoke", "rotate", "end"])
def test_the_sessions_of_a_token_end_with_its_change_and_no_others(store, change):
    token, other = store.tokens.add(new()), store.tokens.add(new("door"))
    session = store.tokens.add(new("console 1"), session_of=token.principal)
    kept = store.tokens.add(new("console 2"), session_of=other.principal)
    (renamed,) = store.tokens.change(token.id, name="eye", limits=Limits(), expires_at=None)
    assert renamed.session_of is None
    if change == "revoke":
        _, ended = store.tokens.revoke(token.id)
    elif change == "rotate":
        _, ended = store.tokens.rotate(token.id, bytes(32))
    else:
        _, ended = store.tokens.change(token.id, name="eye", limits=Limits(), expires_at=SOME_DAY)
    assert ended == store.tokens.get(session.id)
    assert ended.revoked_at is not None
    assert store.tokens.get(kept.id) == kept


def test_the_use_of_several_tokens_is_noted_in_one_write(store):
    first, second = store.tokens.add(new("a")), store.tokens.add(new("b"))
    store.tokens.note_use({first.id: TokenUse(SOME_DAY, "2031-05-01", 12)})
    assert store.tokens.get(first.id).last_used_at == SOME_DAY
    assert store.tokens.get(first.id).used_bytes == 12
    assert store.tokens.get(second.id).last_used_at is None
