import pytest
from stored import set_quota

from storage.errors import StorageFull
from storage.records.models import Quota
from storage.records.samples import Split
from storage.samples.filter import SampleFilter


@pytest.fixture
def model(store, add_model):
    return add_model(store)


def ids(store, model, **conditions):
    where = SampleFilter(**conditions)
    return [each.id for each in store.samples.list(model.id, where, limit=1000)]


def test_of_a_full_model_the_oldest_training_samples_go(store, model, upload):
    set_quota(store, model.id, Quota(max_samples=4))
    upload(store, model, [0], split=Split.VALIDATION)
    upload(store, model, [1, 1, 1], split=Split.TRAIN)
    result = upload(store, model, [2, 2], split=Split.TRAIN)
    assert result.evicted == 2
    assert ids(store, model) == [1, 4, 5, 6]


def test_what_stays_of_a_reservoir_is_an_even_choice_of_all_that_came(store, model, upload):
    set_quota(store, model.id, Quota(max_samples=50, when_full="reservoir"))
    for _ in range(20):
        upload(store, model, [0] * 50, split=Split.TRAIN)
    kept = ids(store, model)
    thirds = [sum(low < each <= low + 334 for each in kept) for low in (0, 334, 668)]
    assert len(kept) == 50
    assert min(thirds) >= 12


def test_balanced_takes_from_the_class_that_has_most(store, model, upload):
    set_quota(store, model.id, Quota(max_samples=6, when_full="balanced"))
    upload(store, model, [0] * 5 + [1], split=Split.TRAIN)
    upload(store, model, [1, 2, None], split=Split.TRAIN)
    labels = [each.label for each in store.samples.list(model.id, limit=10)]
    assert labels == [0, 0, 1, 1, 2, None]


def test_a_large_quota_makes_room_ahead(store, model, upload):
    set_quota(store, model.id, Quota(max_samples=1000))
    upload(store, model, [0] * 1000, split=Split.TRAIN)
    assert upload(store, model, [0], split=Split.TRAIN).evicted == 11
    assert upload(store, model, [0], split=Split.TRAIN).evicted == 0


def test_new_samples_stop_being_for_validation_when_those_fill_a_tenth(store, model, upload):
    set_quota(store, model.id, Quota(max_samples=100))
    for _ in range(10):
        upload(store, model, [0] * 100)
    counts = store.sample_stats.counts(model.id)
    assert counts.train + counts.validation in (99, 100)
    assert 10 <= counts.validation <= 20


def test_what_must_stay_makes_an_upload_fail_whole(store, model, upload):
    upload(store, model, [0, 0], split=Split.VALIDATION)
    set_quota(store, model.id, Quota(max_samples=2))
    with pytest.raises(StorageFull, match="validation samples and pinned ones"):
        upload(store, model, [0], split=Split.VALIDATION)
    with pytest.raises(StorageFull):
        set_quota(store, model.id, Quota(max_samples=1))
    assert store.models.get(model.name).quota == Quota(max_samples=2)
    assert ids(store, model) == [1, 2]


def test_a_quota_is_met_although_nothing_is_left_for_the_room_ahead(store, model, upload):
    upload(store, model, [0] * 500, split=Split.VALIDATION)
    upload(store, model, [0], split=Split.TRAIN)

    assert set_quota(store, model.id, Quota(max_samples=500)) == 1

    assert store.sample_stats.counts(model.id).train == 0
