"""Where several apps fill one model, no app's uploads cost another one the samples of its share."""

from __future__ import annotations

from collections import Counter

import pytest
from stored import set_quota

from storage.database.connection import sqlite3
from storage.errors import StorageFull
from storage.records.models import Quota
from storage.records.samples import Split
from storage.samples.filter import SampleFilter

PHOTOS, DOOR, GATE, ADMIN = "token 1", "token 2", "token 3", None
COUNTED = """
SELECT owner, split, count, size_bytes FROM sample_owners WHERE count > 0 ORDER BY owner, split
"""
STORED = """
SELECT coalesce(owner, ''), split, count(*), sum(length) FROM samples GROUP BY 1, 2 ORDER BY 1, 2
"""


@pytest.fixture
def model(store, add_model):
    return add_model(store)


@pytest.fixture
def send(store, model):
    """Upload this many samples for an owner, one upload for each `at_once` of them."""
    sent = 0

    def send(owner, count, *, split=Split.TRAIN, at_once=1, label=0):
        nonlocal sent
        evicted = 0
        for _ in range(0, count, at_once):
            with store.samples.stage(model.id, 16, owner=owner) as staging:
                records = b"".join((sent + n).to_bytes(16, "big") for n in range(at_once))
                staging.add(records, [label] * at_once, split=split)
                evicted += staging.commit().evicted
            sent += at_once
        return evicted

    return send


def held(store, model, **conditions):
    samples = store.samples.list(model.id, SampleFilter(**conditions), limit=1000)
    return Counter(sample.owner for sample in samples)


def pin_all(store, model):
    for sample in store.samples.list(model.id, limit=1000):
        store.samples.update(model.id, sample.id, pinned=True)


@pytest.mark.parametrize("when_full", ["oldest", "reservoir", "balanced"])
@pytest.mark.parametrize("at_once", [1, 50])
def test_an_app_that_sends_much_replaces_its_own(store, model, send, when_full, at_once):
    set_quota(store, model.id, Quota(max_samples=60, when_full=when_full))
    send(PHOTOS, 20)
    send(ADMIN, 15, label=2)
    send(DOOR, 400, at_once=at_once, label=1)
    assert held(store, model) == {PHOTOS: 20, ADMIN: 15, DOOR: 25}


def test_the_oldest_of_the_app_with_most_go(store, model, send):
    set_quota(store, model.id, Quota(max_samples=10))
    send(DOOR, 8)
    send(PHOTOS, 4)
    assert held(store, model) == {PHOTOS: 4, DOOR: 6}
    assert [sample.id for sample in store.samples.list(model.id, limit=20)] == [*range(3, 13)]
    send(PHOTOS, 4)
    assert held(store, model) == {PHOTOS: 5, DOOR: 5}


def test_a_share_is_of_bytes_where_the_quota_is(store, model, send):
    set_quota(store, model.id, Quota(max_bytes=16 * 40))
    send(PHOTOS, 10)
    send(DOOR, 100, at_once=20)
    assert held(store, model) == {PHOTOS: 10, DOOR: 29}  # an eviction frees a hundredth more
    assert store.sample_stats.totals(model.id).size_bytes == 16 * 39


@pytest.mark.parametrize("split", [Split.VALIDATION, Split.TRAIN])
def test_validation_samples_of_an_app_keep_no_other_out(store, model, send, split):
    set_quota(store, model.id, Quota(max_samples=20))
    send(DOOR, 20, split=Split.VALIDATION)
    with pytest.raises(StorageFull):
        send(DOOR, 1, split=Split.VALIDATION)
    assert send(PHOTOS, 10, split=split) == 10
    assert held(store, model) == {PHOTOS: 10, DOOR: 10}
    with pytest.raises(StorageFull):
        send(DOOR, 1, split=Split.VALIDATION)
    assert held(store, model) == {PHOTOS: 10, DOOR: 10}


def test_each_app_has_validation_samples_although_another_sends_many(store, model, send):
    set_quota(store, model.id, Quota(max_samples=400))
    send(DOOR, 100, split=Split.VALIDATION, at_once=100)
    send(PHOTOS, 200, split=None, at_once=10)
    assert 10 <= held(store, model, split=Split.VALIDATION)[PHOTOS] <= 30


def test_what_is_pinned_and_the_reference_set_stay(store, model, send):
    send(DOOR, 10, split=Split.VALIDATION)
    store.references.freeze(model.id)
    send(DOOR, 5)
    pin_all(store, model)
    set_quota(store, model.id, Quota(max_samples=20))
    send(PHOTOS, 30)
    assert held(store, model) == {PHOTOS: 5, DOOR: 15}
    send(GATE, 30)
    assert held(store, model) == {PHOTOS: 2, DOOR: 15, GATE: 3}


def test_what_the_admin_keeps_is_not_the_apps_fault(store, model, send):
    send(ADMIN, 16)
    pin_all(store, model)
    set_quota(store, model.id, Quota(max_samples=20))
    send(PHOTOS, 10)
    send(DOOR, 10)
    assert held(store, model) == {ADMIN: 16, PHOTOS: 2, DOOR: 2}
    assert set_quota(store, model.id, Quota(max_samples=18)) == 2
    assert held(store, model) == {ADMIN: 16, PHOTOS: 1, DOOR: 1}


def test_a_smaller_quota_takes_no_validation_samples(store, model, send):
    send(DOOR, 10, split=Split.VALIDATION)
    send(PHOTOS, 4)
    with pytest.raises(StorageFull):
        set_quota(store, model.id, Quota(max_samples=9))
    assert set_quota(store, model.id, Quota(max_samples=10)) == 4
    assert held(store, model) == {DOOR: 10}


def test_samples_and_bytes_are_counted_by_owner_through_every_change(store, model, send):
    send(PHOTOS, 30)
    send(ADMIN, 20, split=Split.VALIDATION, label=None)
    send(DOOR, 10)
    ids = [sample.id for sample in store.samples.list(model.id, limit=100)]
    store.samples.update(model.id, ids[20], split=Split.VALIDATION)
    store.samples.update(model.id, ids[31], split=Split.TRAIN, label=1)
    store.samples.delete(model.id, ids[1])
    store.samples.delete(model.id, ids[-1])
    set_quota(store, model.id, Quota(max_samples=50))
    with sqlite3.connect(store.data_dir / "hone.db") as connection:
        rows = connection.execute(STORED).fetchall()
        assert connection.execute(COUNTED).fetchall() == rows
        assert len(rows) == 5, rows
    connection.close()
