"""What one app adds, another one neither changes nor learns of."""

from __future__ import annotations

import pytest

from storage.errors import AlreadyExists, NotFound
from storage.records.samples import DAMAGED
from storage.samples.filter import SampleFilter

PHOTOS, DOOR = "token 1", "token 2"


@pytest.fixture
def model(store, add_model):
    return add_model(store)


@pytest.fixture
def send(store, model, record_of):
    """Upload samples of these numbers for an owner; equal numbers are equal inputs."""

    def send(owner, numbers, labels, **columns):
        with store.samples.stage(model.id, 16, keep_duplicates=False, owner=owner) as staging:
            staging.add(b"".join(map(record_of, numbers)), labels, **columns)
            return staging.commit()

    return send


def rows(store, model):
    return [(each.owner, each.label, each.key) for each in store.samples.list(model.id, limit=100)]


def test_a_sample_is_its_owners_and_changed_by_nobody_elses_key_or_id(store, model, send):
    sample_id = send(PHOTOS, [1], [None], key=["a"]).first_id
    assert store.samples.by_key(model.id, "a", owner=PHOTOS).id == sample_id
    with pytest.raises(NotFound, match="no sample with that key that token 2 has added"):
        store.samples.by_key(model.id, "a", owner=DOOR)
    with pytest.raises(NotFound, match=f"no sample {sample_id} that token 2 has added"):
        store.samples.update(model.id, sample_id, label=3, owner=DOOR)
    assert store.samples.update(model.id, sample_id, label=4, owner=PHOTOS).label == 4
    assert store.samples.update(model.id, sample_id, label=5).label == 5


def test_what_nobody_owns_is_no_apps_to_change(store, model, send):
    sample_id = send(None, [1], [None], key=["a"]).first_id
    with pytest.raises(NotFound):
        store.samples.update(model.id, sample_id, label=3, owner=DOOR)
    with pytest.raises(NotFound):
        store.samples.by_key(model.id, "a", owner=DOOR)


def test_equal_inputs_of_two_apps_stay_two_samples(store, model, send):
    send(PHOTOS, [1], [None], key=["a"])
    done = send(DOOR, [1, 1], [7, 7], key=["b", "c"])
    assert (done.accepted, done.duplicates, done.conflicts) == (1, 1, 0)
    assert rows(store, model) == [(PHOTOS, None, "a"), (DOOR, 7, "b")]
    assert store.samples.by_key(model.id, "c", owner=DOOR).id == done.first_id


def test_an_app_labels_its_own_earlier_upload(store, model, send):
    send(PHOTOS, [1], [None])
    assert send(PHOTOS, [1], [3], key=["a"]).duplicates == 1
    assert rows(store, model) == [(PHOTOS, 3, "a")]


def test_who_may_change_anybodys_samples_merges_with_them(store, model, send):
    send(PHOTOS, [1], [None])
    assert send(None, [1], [3]).duplicates == 1
    assert rows(store, model) == [(PHOTOS, 3, None)]


def test_a_key_that_another_app_uses_is_refused_and_nothing_is_stored(store, model, send):
    send(PHOTOS, [1], [1], key=["a"])
    with pytest.raises(AlreadyExists, match="another app's sample has the key 'a'"):
        send(DOOR, [2, 3], [1, 1], key=["b", "a"])
    assert rows(store, model) == [(PHOTOS, 1, "a")]
    assert send(PHOTOS, [9], [2], key=["a"]).duplicates == 1


def test_a_damaged_sample_keeps_its_key_from_other_apps(store, model, send):
    sample_id = send(PHOTOS, [1], [1], key=["a"]).first_id
    store.samples.quarantine(model.id, {sample_id: DAMAGED + "somehow"})
    with pytest.raises(AlreadyExists):
        send(DOOR, [2], [1], key=["a"])
    assert send(PHOTOS, [2], [1], key=["a"]).accepted == 1
    assert [each.id for each in store.samples.list(model.id, SampleFilter(key="a"), limit=9)] == [
        sample_id + 1
    ]
