"""Equal inputs are one sample of a model, unless duplicates are kept."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from unittest.mock import patch

import pytest
from stored import occupy_writer
from support import DEADLINE_S, wait_until

from storage.errors import NotFound
from storage.records.samples import Split
from storage.samples import staged_rows
from storage.samples.filter import SampleFilter
from storage.samples.twins import drop_stored


@pytest.fixture
def model(store, add_model):
    return add_model(store)


@pytest.fixture
def send(store, model, record_of):
    """Upload samples of these numbers; equal numbers are equal inputs."""

    def send(numbers, labels, **columns):
        with store.samples.stage(model.id, 16, keep_duplicates=False) as staging:
            staging.add(b"".join(map(record_of, numbers)), labels, **columns)
            return staging.commit()

    return send


def labels(store, model):
    return [sample.label for sample in store.samples.list(model.id, limit=1000)]


def test_what_was_sent_before_is_a_duplicate(store, model, send):
    send([1, 2, 3], [1, 2, 3])
    again = send([3, 4, 1], [3, 4, 1])
    assert (again.accepted, again.duplicates, again.conflicts) == (1, 2, 0)
    assert again.twins == {0: 3, 2: 1}
    assert labels(store, model) == [1, 2, 3, 4]


def test_what_comes_twice_in_one_upload_is_a_duplicate(store, model, send, record_of):
    done = send([1, 2, 1, 1, 3], [1, 2, 1, None, 3])
    assert (done.accepted, done.duplicates) == (3, 2)
    assert done.twins == {2: 1, 3: 1}
    assert store.samples.content(model.id, 3) == record_of(3)
    assert store.sample_stats.totals(model.id).size_bytes == 3 * 16


def test_a_large_upload_sent_again_stores_nothing(store, model, send):
    numbers = list(range(1500))
    assert send(numbers, [number % 10 for number in numbers]).accepted == 1500
    again = send(numbers, [number % 10 for number in numbers])
    assert (again.accepted, again.duplicates) == (0, 1500)
    assert len(again.twins) == 1000


def test_equal_inputs_are_found_in_uploads_whose_digests_memory_does_not_hold(
    store, model, send, monkeypatch
):
    monkeypatch.setattr(staged_rows, "_BEGINNINGS_BYTES", 8)
    send([1, 2, 3], [1, 2, 3])
    again = send([3, 4, 5, 4], [3, 4, 5, 4])
    assert (again.accepted, again.duplicates) == (2, 2)
    assert again.twins == {0: 3, 3: 4}


def test_samples_beside_a_duplicate_keep_their_bytes(store, model, record_of):
    with store.samples.stage(model.id, 16, keep_duplicates=False) as staging:
        for numbers in [(1, 2), (2, 3)]:
            staging.add(b"".join(map(record_of, numbers)), [*numbers])
        assert staging.commit().duplicates == 1
    for number in (1, 2, 3):
        assert store.samples.content(model.id, number) == record_of(number)


def test_an_unlabelled_twin_takes_the_label(store, model, send):
    send([1, 2], [None, None])
    done = send([1, 2, 2], [7, None, 5])
    assert (done.accepted, done.duplicates, done.conflicts) == (0, 3, 0)
    assert labels(store, model) == [7, 5]
    counts = store.sample_stats.counts(model.id)
    assert (counts.train + counts.validation, counts.unlabelled) == (2, 0)


@pytest.mark.parametrize("keep", [True, False])
def test_an_unlabelled_sample_sent_again_under_its_keys_takes_the_label(
    store, model, send, record_of, keep
):
    send([1, 1, 2], [None, None, None], key=["a", "also a", "b"])
    with store.samples.stage(model.id, 16, keep_duplicates=keep) as staging:
        staging.add(record_of(1) * 2 + record_of(3), [7, 8, 9], key=["a", "also a", "b"])
        done = staging.commit()
    assert (done.accepted, done.duplicates) == (0, 3)
    assert labels(store, model) == [7, None]  # the label of other inputs is not theirs


@pytest.mark.parametrize("keep", [True, False])
def test_a_key_twice_in_an_upload_keeps_the_label(store, model, record_of, keep):
    with store.samples.stage(model.id, 16, keep_duplicates=keep) as staging:
        records = b"".join(map(record_of, [1, 1, 1, 2, 3]))
        staging.add(records, [None, 7, 8, None, 9], key=["a", "a", "a", "b", "b"])
        done = staging.commit()
    assert (done.accepted, done.duplicates) == (2, 3)
    assert labels(store, model) == [7, None]  # the label of other inputs is not theirs


def test_an_unlabelled_twin_of_the_same_upload_takes_the_label(store, model, send):
    assert send([1, 1], [None, 4]).duplicates == 1
    assert labels(store, model) == [4]


def test_a_different_label_is_kept_beside_and_reported(store, model, send):
    send([1], [1], split=[Split.VALIDATION])
    done = send([1, 1, 2, 2], [2, 2, 5, 6])
    assert (done.accepted, done.duplicates, done.conflicts) == (3, 1, 2)
    assert labels(store, model) == [1, 2, 5, 6]


def test_equal_inputs_with_different_labels_stay_in_one_split(store, model, send):
    for number in range(40):
        send([number], [1], split=[Split.VALIDATION])
    send(list(range(40)), [2] * 40)
    assert store.samples.ids(model.id, SampleFilter(split=Split.TRAIN)).tolist() == []


def test_the_key_of_a_duplicate_finds_the_sample(store, model, send):
    send([1, 2], [1, 2], key=["a", None])
    send([1, 2, 2, 9, 9], [1, 2, 2, 3, 3], key=["b", "c", "d", "e", "f"])
    assert [store.samples.by_key(model.id, key).id for key in "abcdef"] == [1, 1, 2, 2, 3, 3]
    again = send([50], [5], key=["b"])
    assert (again.duplicates, again.twins) == (1, {0: 1})
    assert [each.id for each in store.samples.list(model.id, SampleFilter(key="d"), limit=9)] == [2]


def test_a_deleted_sample_leaves_no_key_behind(store, model, send):
    send([1], [1], key=["a"])
    send([1], [1], key=["b"])
    store.samples.delete(model.id, 1)
    for key in "ab":
        with pytest.raises(NotFound):
            store.samples.by_key(model.id, key)
    assert send([7], [1], key=["b"]).accepted == 1


@pytest.mark.parametrize(("few", "stored"), [(0, 1), (256, 2)])
def test_a_duplicate_of_a_sample_that_is_deleted_meanwhile_is_no_error(
    store, model, send, few, stored
):
    """A large upload looks for duplicates before the deletion is done, a small one after it."""
    send([1, 2], [1, 2])
    writing = threading.Event()
    with ThreadPoolExecutor(3) as pool, patch("storage.samples.staging.FEW_ROWS", few):
        occupy_writer(pool, store, writing, DEADLINE_S)
        deleted = pool.submit(store.samples.delete, model.id, 1)
        wait_until(lambda: store._writer._tasks.qsize() == 1, "the deletion to wait for its turn")
        sent = pool.submit(send, [1, 3], [1, 3], key=["a", "b"])
        wait_until(lambda: store._writer._tasks.qsize() == 2, "the upload to wait behind it")
        writing.set()
        deleted.result()
    assert (sent.result().accepted, sent.result().duplicates) == (stored, 2 - stored)
    assert send([1], [1], key=["a"]).accepted == 2 - stored


def test_another_models_samples_are_no_twins(store, model, send, add_model, upload):
    send([1], [1])
    assert upload(store, add_model(store, "other"), [1], first=1).accepted == 1


def test_duplicates_are_kept_where_that_is_wanted(store, model, upload):
    assert upload(store, model, [1]).accepted == 1
    assert upload(store, model, [1]).accepted == 1


def test_twins_are_sought_by_their_digests_not_among_all_samples(store, model):
    with store.samples.stage(model.id, 16) as staging:
        staging.add(os.urandom(16 * 20_000), [1] * 20_000)
        staging.commit()
    steps = []
    with (
        store._readers.snapshot() as connection,
        store.samples.stage(model.id, 16, keep_duplicates=False) as staging,
    ):
        staging.add(os.urandom(16 * 500), [1] * 500)
        connection.set_progress_handler(lambda: steps.append(1), 100)
        drop_stored(staging._rows, connection, model.id, owner=None)
        connection.set_progress_handler(None, 0)
    assert len(steps) < 500
