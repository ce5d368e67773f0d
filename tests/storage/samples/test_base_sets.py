"""Samples of the base set are samples like others, which quotas and triggers leave alone."""

import pytest
from stored import set_quota, split_of

from storage.errors import StateConflict
from storage.readonly.sample_index import read_ids, read_sample_index
from storage.records.jobs import NewTrigger
from storage.records.models import Quota, SampleCounts
from storage.records.samples import Split
from storage.samples.filter import SampleFilter


@pytest.fixture
def model(store, add_model):
    return add_model(store)


@pytest.fixture
def send(store, model, record_of):
    """Upload samples of these numbers; equal numbers are equal inputs."""

    def send(numbers, *, base_set=False, label=3, **columns):
        with store.samples.stage(model.id, 16, keep_duplicates=False, base_set=base_set) as staging:
            staging.add(b"".join(map(record_of, numbers)), [label] * len(numbers), **columns)
            return staging.commit()

    return send


def splits(store, model):
    return {each.id: each.split.value for each in store.samples.list(model.id, limit=1000)}


def index(store, model, split, *, base):
    target = model.signature.target
    places = (store.database, store.packs_dir)
    return read_sample_index(
        *places, model_id=model.id, split=split, watermark=10**9, target=target, base=base
    )


def test_an_upload_is_the_base_sets_whatever_it_says_of_splits(store, model, send):
    assert model.base_set_at is None
    send(range(3), base_set=True, split=[Split.TRAIN, None, Split.VALIDATION])
    assert splits(store, model) == {1: "base", 2: "base", 3: "base"}
    found = store.models.get("digits")
    assert found.samples == SampleCounts(base=3)
    assert found.base_set_at is not None


def test_no_quota_takes_it_or_counts_it(store, model, send):
    set_quota(store, model.id, Quota(max_samples=4, max_bytes=5 * 16))
    send(range(20), base_set=True)
    send(range(20, 24), split=Split.TRAIN)
    result = send(range(24, 26), split=Split.TRAIN)
    assert result.evicted == 2
    counts = store.sample_stats.counts(model.id)
    assert (counts.base, counts.train) == (20, 4)


def test_a_tenth_by_chance_of_the_inputs_is_held_out(store, model, send, record_of):
    send(range(200), base_set=True)
    send([500], split=Split.TRAIN)
    send([501], split=Split.VALIDATION)
    trained = index(store, model, Split.TRAIN, base=True)
    judged = index(store, model, Split.VALIDATION, base=True)
    held_out = {
        each.id
        for each in store.samples.list(model.id, limit=300)
        if split_of(bytes.fromhex(each.sha256)) is Split.VALIDATION and each.id <= 200
    }
    assert 5 < len(held_out) < 40
    assert set(judged.ids.tolist()) == held_out | {202}
    assert set(trained.ids.tolist()) == set(range(1, 202)) - held_out
    assert store.base_sets.held_out(model.id) == len(held_out)
    assert read_ids(store.database, "base", model_id=model.id).tolist() == [*range(1, 201)]
    assert index(store, model, Split.TRAIN, base=False).ids.tolist() == [201]


def test_the_first_labelled_samples_are_taken_and_given_back_as_they_were(store, model, send):
    send([1, 2], split=Split.TRAIN)
    send([3], split=Split.VALIDATION)
    send([4], label=None, split=Split.TRAIN)
    send([5, 6], split=Split.TRAIN)
    before = splits(store, model)

    assert store.base_sets.take_first(model.id, 4) == 4
    taken = splits(store, model)
    assert [each for each, split in taken.items() if split == "base"] == [1, 2, 3, 5]
    assert store.base_sets.take_first(model.id, 4) == 0
    assert store.sample_stats.counts(model.id) == SampleCounts(1, 0, 1, 4)

    assert store.base_sets.give_back(model.id) == 4
    assert splits(store, model) == before


def test_more_than_there_are_changes_nothing(store, model, send):
    send([1, 2], split=Split.TRAIN)
    with pytest.raises(StateConflict, match="has 2 labelled samples, fewer than 3; ask for fewer"):
        store.base_sets.take_first(model.id, 3)
    assert store.sample_stats.counts(model.id) == SampleCounts(train=2)


def test_what_the_model_has_already_is_taken_and_stays_when_it_comes_again(store, model, send):
    send([1, 2, 3], split=Split.TRAIN)
    result = send([2, 3, 4], base_set=True)
    assert (result.accepted, result.duplicates) == (1, 2)
    assert splits(store, model) == {1: "train", 2: "base", 3: "base", 4: "base"}
    assert send([3, 4], split=Split.TRAIN).duplicates == 2
    assert splits(store, model)[4] == "base"
    assert store.base_sets.give_back(model.id) == 2
    assert splits(store, model) == {1: "train", 2: "train", 3: "train", 4: "base"}


def test_another_label_for_the_same_inputs_does_not_join_it(store, model, send):
    send([1], base_set=True)
    assert send([1], label=4).conflicts == 1
    assert splits(store, model)[2] in ("train", "validation")


def test_triggers_do_not_count_it(store, model, send):
    send([1], split=Split.TRAIN)
    send([2, 3], base_set=True)
    new = NewTrigger(model.id, "new", rule={}, hyperparameters={}, priority=0, enabled=True)
    assert store.triggers.add(new).labelled == 1


def test_it_is_filtered_and_deleted_like_any_split(store, model, send):
    send([1], split=Split.TRAIN)
    send([2, 3], base_set=True)
    assert store.samples.delete_where(model.id, SampleFilter(split=Split.BASE)) == [2, 3]
    assert store.sample_stats.counts(model.id) == SampleCounts(train=1)
