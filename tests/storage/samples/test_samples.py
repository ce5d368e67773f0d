import pytest

from storage.errors import Damaged, NotFound
from storage.records.models import SampleCounts
from storage.records.samples import Split
from storage.samples.filter import SampleFilter


def test_lists_meet_every_condition(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1, 2, None, 1, None], split=Split.TRAIN)
    upload(store, model, [1], split=Split.VALIDATION)

    def ids(after=0, **conditions):
        where = SampleFilter(**conditions)
        return [each.id for each in store.samples.list(model.id, where, limit=10, after=after)]

    assert ids() == [1, 2, 3, 4, 5, 6]
    assert ids(label=1) == [1, 4, 6]
    assert ids(label=1, split=Split.TRAIN) == [1, 4]
    assert ids(unlabelled=True) == [3, 5]
    assert ids(unlabelled=False, after=2) == [4, 6]


def test_counts_follow_every_change(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1, 1, None, 2], split=Split.TRAIN)
    assert store.sample_stats.counts(model.id) == SampleCounts(train=3, unlabelled=1)
    store.samples.update(model.id, 3, label=2)
    store.samples.update(model.id, 1, split=Split.VALIDATION)
    store.samples.delete(model.id, 2)
    assert store.sample_stats.counts(model.id) == SampleCounts(train=2, validation=1)
    assert store.sample_stats.label_counts(model.id) == [
        (Split.TRAIN, 2, 2),
        (Split.VALIDATION, 1, 1),
    ]
    assert store.models.get("digits").samples == SampleCounts(train=2, validation=1)


def test_changes_and_deletions_are_told_and_not_stored(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1, 1, 2])
    heard, last = [], store.events.last_id()
    store.events.subscribe(heard.append)
    store.samples.update(model.id, 3, label=1)
    store.samples.delete(model.id, 1)
    store.samples.delete_where(model.id, SampleFilter())
    store.samples.delete_where(model.id, SampleFilter())
    assert store.events.last_id() == last
    told = [("changed", {"id": 3}), ("deleted", {"deleted": 1}), ("deleted", {"deleted": 2})]
    assert [(each.id, each.model, each.type, each.data) for each in heard] == [
        (None, "digits", f"samples.{kind}", data) for kind, data in told
    ]


def test_a_label_can_be_taken_away_and_what_is_not_given_stays(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1], split=Split.VALIDATION)
    sample = store.samples.update(model.id, 1, label=None)
    assert (sample.label, sample.split) == (None, Split.VALIDATION)
    assert store.samples.get(model.id, 1) == sample
    assert store.sample_stats.label_counts(model.id) == [(Split.VALIDATION, None, 1)]


def test_deleting_overwrites_the_bytes_and_nothing_else(store, add_model, upload, record_of):
    model = add_model(store)
    upload(store, model, [1, 2, 3], key=["a", "b", "c"])
    store.samples.delete(model.id, 2)
    with pytest.raises(NotFound, match="no sample 2"):
        store.samples.get(model.id, 2)
    with pytest.raises(NotFound):
        store.samples.delete(model.id, 2)
    pack = (store.packs_dir / str(model.id) / "1.pack").read_bytes()
    assert pack == record_of(0) + bytes(16) + record_of(2)
    assert store._connection.execute("SELECT count(*) FROM erasures").fetchone()[0] == 0
    assert upload(store, model, [2], key=["b"]).first_id == 4


def test_the_id_of_the_last_sample_is_not_used_again(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1, 2])
    store.samples.delete(model.id, 2)
    assert upload(store, model, [3]).first_id == 3


def test_a_sample_is_found_in_its_own_model_only(store, add_model, upload):
    upload(store, add_model(store), [1])
    other = add_model(store, "other")
    for read in (store.samples.get, store.samples.content, store.samples.delete):
        with pytest.raises(NotFound):
            read(other.id, 1)


def test_changed_bytes_are_not_served(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1])
    path = store.packs_dir / str(model.id) / "1.pack"
    path.write_bytes(b"\x7f" + path.read_bytes()[1:])
    with pytest.raises(Damaged, match="sample 1: its bytes"):
        store.samples.content(model.id, 1)
