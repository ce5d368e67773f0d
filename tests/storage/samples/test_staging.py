import hashlib
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from stored import begin, split_of

from storage.blobs import packs
from storage.errors import Busy, NotFound
from storage.records.samples import Split
from storage.store import Store

RECORD_BYTES = 16


def digest_of(number):
    """Of a record as `upload` makes it."""
    return hashlib.sha256((number + 1).to_bytes(RECORD_BYTES, "little")).digest()


def contents(store, model):
    samples = store.samples.list(model.id, limit=10_000)
    return [store.samples.content(model.id, sample.id) for sample in samples]


def test_samples_come_back_as_they_were_sent(store, add_model, upload, record_of):
    model = add_model(store)
    result = upload(store, model, [3, None, 7], key=["a", None, "c"])
    assert (result.accepted, result.duplicates) == (3, 0)
    assert (result.first_id, result.last_id) == (1, 3)
    stored = store.samples.list(model.id, limit=10)
    assert [(each.label, each.key) for each in stored] == [(3, "a"), (None, None), (7, "c")]
    assert contents(store, model) == [record_of(0), record_of(1), record_of(2)]


def test_arrays_and_blob_labels_are_taken(store, add_model):
    model = add_model(store)
    records = np.arange(8, dtype="<f4").reshape(2, 4)
    labels = [np.float32(value).tobytes() for value in (0.5, 1.5)]
    with store.samples.stage(model.id, RECORD_BYTES) as staging:
        staging.add(records, labels)
        staging.commit()
    assert contents(store, model) == [row.tobytes() for row in records]
    assert [sample.label for sample in store.samples.list(model.id, limit=10)] == labels
    assert store.sample_stats.label_counts(model.id) == []


def test_the_same_key_again_is_a_duplicate_and_its_bytes_are_not_kept(
    store, add_model, upload, record_of
):
    model = add_model(store)
    upload(store, model, [1, 2], key=["a", "b"])
    result = upload(store, model, [3, 4, 5, 6], first=2, key=["c", "a", "d", "d"])
    assert (result.accepted, result.duplicates) == (2, 2)
    assert (result.first_id, result.last_id) == (3, 4)
    pack = (store.packs_dir / str(model.id) / "1.pack").read_bytes()
    assert pack == b"".join(record_of(number) for number in (0, 1, 2, 4))
    assert contents(store, model)[2:] == [record_of(2), record_of(4)]


def test_an_upload_of_nothing_but_duplicates_stores_nothing(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1, 2], key=["a", "b"])
    result = upload(store, model, [1, 2], key=["a", "b"])
    assert (result.accepted, result.duplicates, result.first_id) == (0, 2, None)
    assert (store.packs_dir / str(model.id) / "1.pack").stat().st_size == 32


def test_keys_are_of_one_model(store, add_model, upload):
    for name in ("one", "two"):
        assert upload(store, add_model(store, name), [1], key=["a"]).accepted == 1


def test_of_two_uploads_at_once_with_the_same_keys_one_wins_each_key(store, add_model, upload):
    model = add_model(store)
    keys = [f"k{n}" for n in range(700)]
    barrier = threading.Barrier(4)

    def send():
        barrier.wait()
        return upload(store, model, [0] * len(keys), key=keys)

    with ThreadPoolExecutor(4) as pool:
        results = [future.result() for future in [pool.submit(send) for _ in range(4)]]
    assert sum(result.accepted for result in results) == len(keys)
    assert sum(result.duplicates for result in results) == 3 * len(keys)
    counts = store.sample_stats.counts(model.id)
    splits = [split_of(digest_of(number)) for number in range(len(keys))]
    train, validation = splits.count(Split.TRAIN), splits.count(Split.VALIDATION)
    assert (counts.train, counts.validation) == (train, validation)


def test_leaving_without_a_commit_stores_nothing(store, add_model, record_of):
    model = add_model(store)
    with store.samples.stage(model.id, RECORD_BYTES) as staging:
        staging.add(record_of(0), [1])
    assert store.samples.list(model.id, limit=1) == []
    assert list(store.tmp_dir.iterdir()) == []


def test_what_is_still_being_staged_ends_with_the_store(data_dir, database, add_model, record_of):
    """Its thread would keep the process of a daemon that was told to stop."""
    store = Store.open(begin(data_dir, database))
    with store.samples.stage(add_model(store).id, RECORD_BYTES) as staging:
        staging.add(record_of(0), [1])
        store.close()
        with pytest.raises(Busy, match="stopping"):
            staging.add(record_of(1), [1])
    assert [*(data_dir / "tmp").iterdir()] == []


def test_a_model_deleted_meanwhile_gets_no_samples(store, add_model, record_of):
    model = add_model(store)
    with store.samples.stage(model.id, RECORD_BYTES) as staging:
        staging.add(record_of(0), [1])
        store.models.delete(model.name)
        with pytest.raises(NotFound):
            staging.commit()
    assert list(store.packs_dir.iterdir()) == []


def test_lengths_that_do_not_agree_are_named(store, add_model, record_of):
    model = add_model(store)
    with store.samples.stage(model.id, RECORD_BYTES) as staging:
        with pytest.raises(ValueError, match=r"2 labels came with 16 bytes; .* make 32"):
            staging.add(record_of(0), [1, 2])
        with pytest.raises(ValueError, match="1 labels came with 2 of key"):
            staging.add(record_of(0), [1], key=["a", "b"])


def test_rows_that_memory_does_not_hold_move_to_a_file(store, add_model, record_of):
    model = add_model(store)
    keys = [f"k{number % 400}" for number in range(450)]
    with store.samples.stage(model.id, RECORD_BYTES) as staging:
        for first in range(0, 450, 150):
            records = b"".join(map(record_of, range(first, first + 150)))
            staging.add(records, [first // 150] * 150, key=keys[first : first + 150])
            files = [path.name.partition("-")[0] for path in store.tmp_dir.iterdir()]
            assert files == ([] if first == 0 else ["staged"])
        result = staging.commit()
    assert (result.accepted, result.duplicates) == (400, 50)
    assert [each.label for each in store.samples.list(model.id, limit=500)] == (
        [0] * 150 + [1] * 150 + [2] * 100
    )
    assert contents(store, model) == [record_of(number) for number in range(400)]
    assert list(store.tmp_dir.iterdir()) == []


def test_large_labels_that_memory_does_not_hold_move_to_a_file(store, add_model, record_of):
    with store.samples.stage(add_model(store).id, RECORD_BYTES) as staging:
        staging.add(record_of(0) + record_of(1), [bytes(600_000), bytes(600_000)])
        assert [path.name.partition("-")[0] for path in store.tmp_dir.iterdir()] == ["staged"]
        assert staging.commit().accepted == 2


def test_an_upload_finds_nothing_of_those_before_it_and_beside_it(
    store, add_model, upload, record_of
):
    model = add_model(store)
    twins = store.samples.stage(model.id, RECORD_BYTES, keep_duplicates=False)
    twins.add(record_of(0) * 2, [None, 1], key=["a", "b"])
    twins.commit()
    twins.discard()
    twins.discard()
    with (
        store.samples.stage(model.id, RECORD_BYTES) as one,
        store.samples.stage(model.id, RECORD_BYTES) as other,
    ):
        one.add(record_of(1), [1], key=["c"])
        other.add(record_of(2), [2], key=["c"])
        assert one.commit().accepted == 1
        assert other.commit().duplicates == 1
    assert upload(store, model, [3], first=3, key=["d"]).accepted == 1
    assert len(contents(store, model)) == 3


def test_a_large_upload_goes_through_a_file_and_becomes_a_pack(store, add_model, monkeypatch):
    monkeypatch.setattr(packs, "_OWN_PACK_BYTES", 2 << 20)
    model = add_model(store)
    batch = np.random.default_rng(0).integers(0, 255, (1000, 1024), np.uint8)
    with store.samples.stage(model.id, 1024) as staging:
        for _ in range(5):
            staging.add(batch, [1] * 1000)
        assert any(path.name.startswith("spool-") for path in store.tmp_dir.iterdir())
        staging.commit()
    assert store.samples.content(model.id, 2001) == batch[0].tobytes()
    assert (store.packs_dir / str(model.id) / "1.pack").stat().st_size == 5_120_000


def test_uploads_share_a_pack_until_it_is_full(store, add_model, upload, monkeypatch):
    monkeypatch.setattr(packs, "_ROLL_BYTES", 64)
    model = add_model(store)
    for first in (0, 3, 6):
        upload(store, model, [1] * 3, first=first)
    sizes = {path.name: path.stat().st_size for path in store.packs_dir.glob("*/*")}
    assert sizes == {"1.pack": 96, "2.pack": 48}
    assert len(set(contents(store, model))) == 9


def test_a_split_that_is_given_is_kept_and_one_that_is_not_is_derived(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1] * 50)
    upload(store, model, [1] * 50, split=Split.VALIDATION)
    upload(store, model, [1, 1], split=[Split.VALIDATION, None])
    splits = [sample.split for sample in store.samples.list(model.id, limit=1000)]
    assert splits[:50] == [split_of(digest_of(number)) for number in range(50)]
    assert set(splits[50:101]) == {Split.VALIDATION}
    assert splits[101] == split_of(digest_of(1))


def test_one_derived_split_in_ten_is_validation():
    picked = [split_of(digest_of(number)) is Split.VALIDATION for number in range(100_000)]
    assert sum(picked) == pytest.approx(10_000, abs=4 * 95)  # four standard deviations


def test_equal_inputs_never_part(store, add_model, upload):
    model = add_model(store)
    for _ in range(3):
        upload(store, model, [1] * 100)
    splits = [sample.split for sample in store.samples.list(model.id, limit=1000)]
    assert splits[:100] == splits[100:200] == splits[200:]


def test_an_upload_is_told_as_one_event(store, add_model, upload):
    upload(store, add_model(store), [1, 2])
    event = store.events.since(0, 10)[-1]
    assert (event.type, event.model) == ("samples.added", "digits")
    assert event.data == {"accepted": 2, "duplicates": 0, "first_id": 1, "last_id": 2, "evicted": 0}
