from __future__ import annotations

import contextvars
import threading
from datetime import datetime, timedelta, timezone

import pytest

from storage.database.audit_chain import about, begin
from storage.errors import NotFound, StorageBroken
from storage.records.access import AuditFilter, NewEntry
from storage.tables.audit import PRUNED_AT_ONCE, equal_share

LONG_AGO = datetime(2020, 1, 1, tzinfo=timezone.utc)


def entry(**changes):
    given = {"kind": "change", "who": "admin", "address": "127.0.0.1", "action": "snooze"}
    return NewEntry(**{**given, "path": "/v1/snooze", **changes})


def kept(store, **where):
    return store.audit.list(AuditFilter(**where), limit=100)


@pytest.fixture(autouse=True)
def own_context():
    """What a test begins stays in its own context."""
    yield
    begin(entry()).is_done = True


def test_entries_come_back_newest_first_and_by_page(store):
    store.audit.add([entry(action=str(number)) for number in range(3)])
    assert [each.action for each in kept(store)] == ["2", "1", "0"]
    first = store.audit.list(AuditFilter(), limit=2)
    rest = store.audit.list(AuditFilter(), limit=2, before=first[-1].id)
    assert [each.action for each in rest] == ["0"]


@pytest.mark.parametrize(
    "where",
    [
        {"kind": "refusal"},
        {"who": "token 3"},
        {"action": "train"},
        {"model": "pets"},
        {"until": LONG_AGO + timedelta(days=1)},
    ],
)
def test_entries_are_found_by_each_condition(store, where):
    odd = {**where, "at": LONG_AGO} if "until" in where else where
    odd.pop("until", None)
    store.audit.add([entry(), entry(**odd)])
    asked = {"until": LONG_AGO + timedelta(days=1)} if "at" in odd else where
    assert len(kept(store, **asked)) == 1
    assert len(kept(store)) == 2


def test_no_entry_can_be_changed(store):
    store.audit.add([entry()])

    def change(transaction):
        transaction.execute("UPDATE audit SET who = 'nobody'")

    with pytest.raises(StorageBroken, match="never changed"):
        store._writer.write(change)
    assert kept(store)[0].who == "admin"


def pruned(store):
    """What the newest entry about removed ones tells."""
    return kept(store, who="daemon")[0].facts


def test_old_entries_go_and_of_each_kind_those_beyond_the_most(store):
    store.audit.add([entry(at=LONG_AGO)])
    store.audit.add([entry(kind="samples", action=str(number)) for number in range(5)])
    store.audit.add([entry()])
    assert store.audit.prune(timedelta(days=30), most=2) == 4
    assert [(each.kind, each.action) for each in kept(store)] == [
        ("change", "prune_audit"),
        ("change", "snooze"),
        ("samples", "4"),
        ("samples", "3"),
    ]
    assert pruned(store) == {"removed": 4, "removed_in_all": 4}
    assert store.audit.prune(timedelta(days=30), most=2) == 0
    store.audit.add([entry(kind="samples")])
    assert store.audit.prune(timedelta(days=30), most=2) == 1
    assert pruned(store) == {"removed": 1, "removed_in_all": 5}


def test_nobody_pushes_out_what_others_did(store):
    store.audit.add([entry(action=f"admin {number}") for number in range(30)])
    store.audit.add([entry(who="token 1", action=f"1: {number}") for number in range(40)])
    store.audit.add([entry(who="token 2", action=f"2: {number}") for number in range(500)])
    assert store.audit.prune(timedelta(days=30), most=100) == 470
    for who, actions in (
        ("admin", [f"admin {number}" for number in range(30)]),
        ("token 1", [f"1: {number}" for number in range(5, 40)]),
        ("token 2", [f"2: {number}" for number in range(465, 500)]),
    ):
        assert [each.action for each in reversed(kept(store, who=who))] == actions


@pytest.mark.parametrize(
    ("counts", "most", "share"),
    [
        ([], 10, 10),
        ([3, 4], 10, 10),
        ([20], 10, 10),
        ([2, 20], 10, 8),
        ([20, 2, 20], 10, 4),
        ([9, 9, 9], 10, 3),
        ([1] * 20, 10, 0),
    ],
)
def test_who_has_less_than_an_equal_share_leaves_the_rest_to_others(counts, most, share):
    assert equal_share(counts, most) == share


def test_many_entries_go_in_several_transactions(store):
    store.audit.add([entry(at=LONG_AGO) for _ in range(PRUNED_AT_ONCE + 5)])
    assert store.audit.prune(timedelta(days=30), most=100) == PRUNED_AT_ONCE + 5
    assert [each.facts for each in kept(store)] == [
        {"removed": 5, "removed_in_all": PRUNED_AT_ONCE + 5},
        {"removed": PRUNED_AT_ONCE, "removed_in_all": PRUNED_AT_ONCE},
    ]


def test_the_first_write_of_a_context_takes_its_entry_along(store, add_model):
    begin(entry(action="register"))
    about("digits")
    add_model(store)
    store.policy.set_paused(paused=True)
    assert [(each.action, each.model) for each in kept(store)] == [("register", "digits")]


def test_an_entry_is_committed_with_the_change_or_not_at_all(store, add_model):
    model = add_model(store)
    begin(entry(action="change_sample"))
    with pytest.raises(NotFound):
        store.samples.update(model.id, 9, label=1)
    assert kept(store) == []
    store.policy.set_paused(paused=True)
    assert len(kept(store)) == 1


def test_a_request_that_is_over_leaves_nothing_to_later_writes(store):
    begin(entry()).is_done = True
    store.policy.set_paused(paused=True)
    assert kept(store) == []


def test_writes_of_other_contexts_take_nothing_along(store):
    context = contextvars.copy_context()
    begin(entry())
    context.run(store.policy.set_paused, paused=True)
    assert kept(store) == []
    copied = contextvars.copy_context()
    thread = threading.Thread(target=copied.run, args=(store.policy.set_snooze, None))
    thread.start()
    thread.join()
    assert len(kept(store)) == 1
