import shutil
import time
import zlib
from contextlib import closing
from datetime import datetime, timezone

import numpy as np
import pytest
from stored import set_quota, start_job

from storage.database.connection import connect_reader
from storage.erasure import deletions
from storage.erasure.deletions import in_slices
from storage.errors import Busy, InUse
from storage.records.jobs import JobState, NewJob
from storage.records.models import Quota
from storage.records.samples import Split
from storage.samples.filter import SampleFilter
from storage.store import Store

MANY = deletions.AT_ONCE + 100
ALL, GONE = 100, 60
KILLED = 9
DIES_AT_A_WRITE = """
import os, sys
from pathlib import Path
from msgspec.structs import replace
from storage.erasure import deletions
from storage.records.models import Quota
from storage.samples.filter import SampleFilter
from storage.store import Store

folder, kind, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
deletions.AT_ONCE = 20
store = Store.open(Path(folder))
model = store.models.get("digits")
write = store._writer.write

def write_or_die(change, **how):
    global left
    left -= 1
    if left < 0:
        os._exit(9)
    return write(change, **how)

store._writer.write = write_or_die
match kind:
    case "filter":
        store.samples.delete_where(model.id, SampleFilter(label=1))
    case "quota":
        store.models.change("digits", lambda now: replace(now, quota=Quota(max_samples=40)))
    case "model":
        store.models.delete("digits")
store.close()
"""


@pytest.fixture
def model(store, add_model):
    return add_model(store)


@pytest.fixture
def record_deletion(store, model):
    """A deletion that has begun: of these samples, None for all of the model."""

    def record_deletion(ids):
        begun = "INSERT INTO deletions (model_id, ids) VALUES (?, ?)"
        packed = None if ids is None else deletions.encode(ids)
        store._writer.write(lambda each: each.execute(begun, (model.id, packed)))

    return record_deletion


@pytest.fixture
def full_folder(data_dir, add_model, upload):
    """A data folder with samples of two labels, and an own backup."""
    store = Store.open(data_dir)
    upload(store, add_model(store), [1] * GONE + [2] * (ALL - GONE), split=Split.TRAIN)
    store.backups.make(datetime(2026, 1, 1, tzinfo=timezone.utc))
    store.close()
    return data_dir


def stored_ids(store, model):
    return store.samples.ids(model.id, SampleFilter()).tolist()


def bytes_in_packs(data_dir):
    return b"".join(path.read_bytes() for path in data_dir.glob("packs/*/*"))


def test_slices_hold_every_item_once_and_fit_the_time_that_a_write_may_take(store):
    sizes = []

    def change(transaction, some):
        sizes.append(len(some))
        until = time.monotonic() + len(some) * 1e-4  # a slow disk: 50 ms for the first slice
        while time.monotonic() < until:
            transaction.execute("SELECT 1")
        return some

    assert in_slices(store._writer, range(3000), change) == [*range(3000)]
    assert sizes[0] == deletions.AT_ONCE
    assert max(sizes[1:]) < deletions.AT_ONCE


def test_others_write_between_the_slices(store, model, upload, monkeypatch):
    upload(store, model, [1] * MANY)
    write, seen = store._writer.write, []

    def write_and_look(change, **how):
        result = write(change, **how)
        seen.append(len(stored_ids(store, model)))
        return result

    monkeypatch.setattr(store._writer, "write", write_and_look)
    assert store.samples.delete_where(model.id, SampleFilter()) == [*range(1, MANY + 1)]
    assert [*dict.fromkeys(seen)] == [MANY, MANY - deletions.AT_ONCE, 0]


@pytest.mark.parametrize("kind", ["filter", "quota", "model"])
def test_a_kill_at_any_write_leaves_all_or_nothing(
    full_folder, tmp_path, record_of, start_child, kind
):
    kept, writes, codes = set(), 0, {KILLED}
    while codes == {KILLED}:
        folder = shutil.copytree(full_folder, tmp_path / f"{kind} {writes}")
        codes = {start_child(DIES_AT_A_WRITE, folder, kind, str(writes)).wait()}
        kept.add(held_after(folder, record_of))
        writes += 1
    assert codes == {0}
    assert kept == {ALL, 0 if kind == "model" else ALL - GONE}
    assert writes > 6


def held_after(folder, record_of):
    """How many samples a folder holds after a start, which has left nothing of the others."""
    store = Store.open(folder)
    try:
        assert store.eraser.pending_models() == []
        models = store.models.list(9)
        ids = stored_ids(store, models[0]) if models else []
        for id_ in ids:
            assert store.samples.content(models[0].id, id_) == record_of(id_ - 1)
    finally:
        store.close()
    data = bytes_in_packs(folder)
    there = {data[at : at + 16] for at in range(0, len(data), 16)} - {bytes(16)}
    assert there == {record_of(id_ - 1) for id_ in ids}
    if models:
        (backup,) = folder.glob("backups/*.db")
        with closing(connect_reader(backup)) as copy:
            assert [row["id"] for row in copy.execute("SELECT id FROM samples ORDER BY id")] == ids
    return len(ids)


def test_no_job_begins_and_classes_stay_until_a_deletion_ends(
    store, model, upload, record_deletion
):
    upload(store, model, [1, 2, 3])
    job = store.jobs.enqueue(NewJob(model.id, "manual", {}, "latest"))
    record_deletion([1, 2])
    with pytest.raises(Busy, match="samples of 'digits' are being deleted; job 1 begins after"):
        store.jobs.move(job.id, JobState.QUEUED, JobState.RUNNING)
    store.jobs.move(job.id, JobState.QUEUED, JobState.CANCELLED)
    with pytest.raises(InUse, match="samples of this model are being deleted"):
        store.models.change_classes(model, model, (), edit=dict)

    store.finish_deletions()

    assert stored_ids(store, model) == [3]
    start_job(store, model.id)


def test_what_matches_no_more_when_its_turn_comes_stays(store, model, upload):
    upload(store, model, [1] * MANY)

    def relabel(transaction):
        transaction.execute("UPDATE samples SET label = 2 WHERE id = 7")

    ids = np.arange(1, MANY + 1)
    where = SampleFilter(label=1)
    _, gone = store.eraser.deletions.run(model.id, lambda: ids, relabel, where=where)
    assert stored_ids(store, model) == [7]
    assert len(gone) == MANY - 1


def test_a_model_whose_deletion_was_interrupted_goes(store, model, upload, record_deletion):
    upload(store, model, [1, 2, 3])
    record_deletion(None)
    store.finish_deletions()
    assert store.models.list(9) == []
    assert not (store.packs_dir / str(model.id)).exists()


def test_a_lower_quota_evicts_many_a_few_at_a_time(store, model, upload):
    upload(store, model, [1] * MANY, split=Split.TRAIN)
    assert set_quota(store, model.id, Quota(max_samples=10)) == MANY - 10
    assert stored_ids(store, model) == [*range(MANY - 9, MANY + 1)]


def test_an_upload_leaves_it_to_a_deletion_to_make_room(store, model, upload, record_deletion):
    upload(store, model, [1] * 4, split=Split.TRAIN)
    set_quota(store, model.id, Quota(max_samples=4))
    record_deletion([1, 2, 3])
    assert upload(store, model, [1] * 2, first=4, split=Split.TRAIN).evicted == 0
    store.finish_deletions()
    assert stored_ids(store, model) == [4, 5, 6]


def test_a_lower_quota_counts_without_what_is_being_deleted(store, model, upload, record_deletion):
    upload(store, model, [1] * 10, split=Split.TRAIN)
    record_deletion([7, 8, 9, 10])
    assert set_quota(store, model.id, Quota(max_samples=5)) == 1
    assert stored_ids(store, model) == [2, 3, 4, 5, 6]


def test_a_set_larger_than_any_memory_deletes_what_is_there(store, model, upload):
    upload(store, model, [1, 2, 3])
    endless = zlib.compress(np.array([2, 1 << 45], "<i8").tobytes())
    begun = "INSERT INTO deletions (model_id, ids) VALUES (?, ?)"
    store._writer.write(lambda each: each.execute(begun, (model.id, endless)))
    store.finish_deletions()
    assert stored_ids(store, model) == [1]
