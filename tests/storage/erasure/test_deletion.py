import shutil
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from stored import set_quota

from storage.blobs.compaction import reclaim
from storage.blobs.row_cache import RowCache
from storage.erasure.sample_rows import delete_samples
from storage.records.jobs import JobState, NewJob
from storage.records.models import Quota
from storage.records.samples import Split
from storage.samples.filter import SampleFilter
from storage.store import Store

RECORD_BYTES = 16
THREADS, DELETED = 8, 1000


@pytest.fixture
def model(store, add_model):
    return add_model(store)


def packs(store, model):
    return sorted((store.packs_dir / str(model.id)).glob("*"))


def begin_job(store, model):
    job = store.jobs.enqueue(
        NewJob(model_id=model.id, trigger="manual", hyperparameters={}, start="base")
    )
    return store.jobs.move(job.id, JobState.QUEUED, JobState.RUNNING)


def test_a_worn_pack_is_written_anew_without_what_was_deleted(store, model, upload, record_of):
    upload(store, model, list(range(8)))
    (before,) = packs(store, model)
    for gone in (1, 3, 5, 7):
        store.samples.delete(model.id, gone)
    (after,) = packs(store, model)
    assert after != before
    assert after.read_bytes() == b"".join(record_of(n) for n in (1, 3, 5, 7))
    assert store.samples.content(model.id, 8) == record_of(7)


def test_a_pack_without_samples_goes(store, model, upload):
    upload(store, model, [1, 2, 3])
    assert store.samples.delete_where(model.id, SampleFilter()) == [1, 2, 3]
    assert packs(store, model) == []
    upload(store, model, [4])
    assert store.samples.list(model.id, limit=9)[0].id == 4


def test_while_a_job_trains_evicted_bytes_wait_and_packs_stay(store, model, upload, record_of):
    upload(store, model, [0] * 4, split=Split.TRAIN)
    (pack,) = packs(store, model)
    job = begin_job(store, model)
    set_quota(store, model.id, Quota(max_samples=1))
    assert record_of(0) in pack.read_bytes()
    store.samples.delete(model.id, 4)
    assert not any(pack.read_bytes())
    assert packs(store, model) == [pack]
    store.jobs.move(job.id, JobState.RUNNING, JobState.FAILED)
    store.eraser.erase_at_rest(model.id)
    assert packs(store, model) == []


def test_threads_that_delete_at_once_leave_no_byte_of_what_they_deleted(
    store, model, upload, record_of
):
    upload(store, model, [0] * 4 * DELETED)
    gone = range(1, 4 * DELETED, 4)
    with ThreadPoolExecutor(THREADS) as pool:
        done = [pool.submit(store.samples.delete, model.id, each) for each in gone]
        for each in done:
            each.result()
    (pack,) = packs(store, model)
    data = pack.read_bytes()
    parts = {data[at : at + RECORD_BYTES] for at in range(0, len(data), RECORD_BYTES)}
    assert parts & {record_of(each - 1) for each in gone} == set()
    assert len(parts) == 3 * DELETED + 1  # those that stay, and zeros
    assert store.eraser.pending_models() == []


def test_deleted_samples_leave_the_caches(store, model, upload):
    upload(store, model, [1, 2])
    folder = store.cache_dir / str(model.id) / "tensors"
    with RowCache.open(folder, key="k", row_bytes=2, max_bytes=99) as cache:
        cache.append([1, 2], np.array([[7, 7], [8, 8]], np.uint8))
    store.samples.delete(model.id, 1)
    assert (folder / "rows").read_bytes() == b"\0\0\x08\x08"
    store.models.delete(model.name)
    assert not folder.exists()


@pytest.mark.parametrize("killed", [False, True])
def test_a_cache_that_cannot_be_read_keeps_neither_a_deletion_nor_a_start(
    data_dir, add_model, upload, monkeypatch, *, killed
):
    store = Store.open(data_dir)
    model = add_model(store)
    upload(store, model, [1, 2])
    folder = store.cache_dir / str(model.id) / "tensors"
    with RowCache.open(folder, key="k", row_bytes=2, max_bytes=99) as cache:
        cache.append([1, 2], np.array([[7, 7], [8, 8]], np.uint8))
    (folder / "key").write_bytes(b"")
    if killed:  # before the bytes are overwritten
        monkeypatch.setattr(store.eraser, "erase_or_later", lambda _: None)
    store.samples.delete(model.id, 1)
    store.close()
    store = Store.open(data_dir)
    assert store.eraser.pending_models() == []
    assert not (folder / "rows").exists()
    told = [each for each in store.events.since(0, 100) if each.type == "storage.damaged"]
    assert [(each.model, each.data["cache"]) for each in told] == [(model.name, "tensors")]
    store.close()


def test_the_log_of_the_database_holds_nothing_of_a_deleted_sample(store, model, upload):
    upload(store, model, [1], key=["a-very-secret-key"])
    log = store.database.with_name("hone.db-wal")
    assert b"a-very-secret-key" in log.read_bytes()
    store.samples.delete(model.id, 1)
    assert b"a-very-secret-key" not in log.read_bytes()
    assert b"a-very-secret-key" not in store.database.read_bytes()


def test_an_erasure_that_a_reader_hinders_is_finished_later(store, model, upload):
    upload(store, model, [1], key=["a-very-secret-key"])
    reader = sqlite3.connect(store.database)
    reader.execute("BEGIN")
    reader.execute("SELECT count(*) FROM samples").fetchone()
    store.samples.delete(model.id, 1)
    assert store.eraser.pending_models() == [model.id]
    reader.close()
    store.eraser.erase_at_rest(model.id)
    assert store.eraser.pending_models() == []
    assert b"a-very-secret-key" not in store.database.with_name("hone.db-wal").read_bytes()


def test_a_deletion_whose_bytes_stay_for_now_is_done_and_remembered(store, model, upload, caplog):
    upload(store, model, [1, 2])
    folder = store.cache_dir / str(model.id) / "features"
    (folder / "lock").mkdir(parents=True)  # what is opened there is a file
    store.samples.delete(model.id, 1)
    assert [sample.id for sample in store.samples.list(model.id, limit=9)] == [2]
    assert "erasure.postponed" in caplog.text
    assert store.eraser.pending_models() == [model.id]
    shutil.rmtree(folder)
    store.eraser.erase_at_rest(model.id)
    assert store.eraser.pending_models() == []


def test_what_a_crash_left_unerased_is_erased_at_start(data_dir, add_model, upload):
    store = Store.open(data_dir)
    model = add_model(store)
    upload(store, model, [1, 2, 3])
    remember = (
        "INSERT INTO erasures (model_id, pack, offset, length, sample_id) VALUES (?, 1, 0, 16, 1)"
    )
    store._writer.write(lambda transaction: transaction.execute(remember, (model.id,)))
    (pack,) = packs(store, model)
    store.close()
    assert any(pack.read_bytes()[:16])
    store = Store.open(data_dir)
    assert not any(pack.read_bytes()[:16])
    assert store.eraser.pending_models() == []
    store.close()


def test_a_sample_deleted_while_its_pack_is_written_anew_is_not_in_the_copy(
    store, model, upload, record_of
):
    class DeletesFirst:
        """The store's writer, to which another request comes just before the samples move."""

        def write(self, change):
            store._writer.write(lambda t: delete_samples(t, model.id, [4]))
            return store._writer.write(change)

    upload(store, model, [0] * 4)
    job = begin_job(store, model)
    store.samples.delete_where(model.id, SampleFilter(up_to=2))
    store.jobs.move(job.id, JobState.RUNNING, JobState.FAILED)
    (before,) = packs(store, model)

    reclaim(DeletesFirst(), store._readers, store._packs, store._copies, model_id=model.id)

    (after,) = packs(store, model)
    assert after != before
    assert after.read_bytes() == record_of(2) + bytes(RECORD_BYTES)
    store.eraser.erase(model.id)
    assert store.samples.content(model.id, 3) == record_of(2)
    assert store.eraser.pending_models() == []
