"""The chain of the audit log: what was changed, removed or put in is found in its export."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import datetime, timedelta, timezone
from hashlib import sha256
from pathlib import Path

import pytest

from service.access.audit_chain import AuditChain
from storage.database.audit_chain import begin
from storage.database.connection import sqlite3
from storage.errors import Damaged, NotFound
from storage.records.access import AuditFilter, NewEntry
from storage.store import Store

LONG_AGO = datetime(2020, 1, 1, tzinfo=timezone.utc)
AGE = timedelta(days=30)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(tmp_path / "data")
    yield store
    store.close()


def entry(who: str = "admin", **changes: object) -> NewEntry:
    given = {"kind": "change", "address": "::1", "action": "snooze", "path": "/v1/snooze"}
    return NewEntry(**{**given, "who": who, **changes})  # type: ignore[arg-type]


def lines(store: Store) -> list[str]:
    return "".join(store.audit.export(after=0)).splitlines()


def checked(found: list[str]) -> AuditChain:
    chain = AuditChain()
    for line in found:
        chain.add(line)
    chain.require_all()
    return chain


def tamper(store: Store, *statements: str) -> list[str]:
    """The lines of the log after somebody has changed the database behind the daemon's back."""
    with closing(sqlite3.connect(store.data_dir / "hone.db")) as connection, connection:
        connection.execute("DROP TRIGGER audit_is_never_changed")
        for statement in statements:
            connection.execute(statement)
    return lines(store)


def test_an_entry_has_its_own_hash_and_that_of_the_one_before(store: Store) -> None:
    facts = '{"norm": 0.1, "federation": "näh\\u2028"}'
    store.audit.add([entry(), entry(kind="export", facts=facts), entry(who="token 3")])
    previous = "0" * 64
    for line, stored in zip(
        lines(store), reversed(store.audit.list(AuditFilter(), limit=9)), strict=True
    ):
        told = json.loads(line)
        assert told["previous"] == stored.previous.hex() == previous
        content = line.replace(f',"hash":"{told["hash"]}"', "")
        previous = sha256(content.encode()).hexdigest()
        assert told["hash"] == stored.hash.hex() == previous
        assert (told["id"], told["facts"]) == (stored.id, stored.facts)
    chain = checked(lines(store))
    assert (chain.entries, chain.last_id, chain.last_hash) == (3, 3, previous)


def test_a_write_that_fails_leaves_no_gap(store: Store) -> None:
    store.audit.add([entry()])
    pending = begin(entry())
    with pytest.raises(NotFound):
        store.tokens.revoke(9)
    pending.is_done = True
    store.audit.add([entry()])
    assert checked(lines(store)).last_id == 2


def test_what_retention_has_removed_is_no_damage(store: Store) -> None:
    store.audit.add([entry(at=LONG_AGO) for _ in range(7)])
    store.audit.add([entry(who) for who in ("token 1", "admin") * 20])
    store.audit.prune(AGE, most=10)
    store.audit.add([entry("token 2") for _ in range(3)])
    store.audit.prune(AGE, most=9)
    chain = checked(lines(store))
    assert chain.last_id == 7 + 40 + 1 + 3 + 1
    assert chain.removed == chain.last_id - chain.entries > 37


TAMPERED: dict[str, tuple[str, ...]] = {
    "a word": ("UPDATE audit SET who = 'token 9' WHERE id = 3",),
    "the newest": ("UPDATE audit SET count = 2 WHERE id = 6",),
    "a time": ("UPDATE audit SET at = '2030-01-01T00:00:00.000000+00:00' WHERE id = 1",),
    "a hash": ("UPDATE audit SET hash = zeroblob(32) WHERE id = 4",),
    "an entry gone": ("DELETE FROM audit WHERE id = 3",),
    "the first gone": ("DELETE FROM audit WHERE id = 1",),
    "two exchanged": (
        "UPDATE audit SET id = 99 WHERE id = 2",
        "UPDATE audit SET id = 2 WHERE id = 3",
        "UPDATE audit SET id = 3 WHERE id = 99",
    ),
}


@pytest.mark.parametrize("how", TAMPERED)
def test_what_was_changed_behind_the_daemon_is_found(store: Store, how: str) -> None:
    store.audit.add([entry() for _ in range(6)])
    checked(lines(store))
    with pytest.raises(Damaged):
        checked(tamper(store, *TAMPERED[how]))


def test_an_end_that_was_cut_off_is_found_by_the_next_entry(store: Store) -> None:
    store.audit.add([entry() for _ in range(6)])
    store.audit.prune(AGE, most=4)
    tamper(store, "DELETE FROM audit WHERE id > 4")
    store.audit.add([entry()])
    with pytest.raises(Damaged, match="missing"):
        checked(lines(store))


EDITS: dict[str, Callable[[list[str]], list[str]]] = {
    "a line left out": lambda found: [*found[:2], *found[3:]],
    "a line twice": lambda found: [*found[:3], *found[2:]],
    "lines exchanged": lambda found: [found[1], found[0], *found[2:]],
    "a letter": lambda found: [found[0].replace("snooze", "snoozE"), *found[1:]],
    "no entry": lambda found: [*found, "{}"],
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_export_that_was_edited_is_found_out(store: Store, edit: str) -> None:
    store.audit.add([entry() for _ in range(5)])
    with pytest.raises(Damaged):
        checked(EDITS[edit](lines(store)))
