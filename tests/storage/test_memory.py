import ctypes
import gc
import sys

import pytest
from stored import set_quota
from support import DEADLINE_S, wait_until

from storage.blobs.sharing import SharedLock
from storage.records.models import Quota
from storage.records.samples import Split
from storage.store import Store

if sys.platform != "linux":
    pytest.skip("ru_maxrss counts kibibytes on Linux only", allow_module_level=True)

UPLOAD = """
import resource, sys
from pathlib import Path
from storage.store import Store

def peak_kib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

store = Store.open(Path(sys.argv[1]))
model = store.models.get("digits")
batch, labels = bytes(4096) * 1000, [1] * 1000
before = peak_kib()
with store.samples.stage(model.id, 4096) as staging:
    for n in range(60):
        staging.add(batch, labels, key=[f"{n}-{i}" for i in range(1000)])
    staging.commit()
print(peak_kib() - before)
store.close()
"""


def test_an_upload_of_240_megabytes_takes_little_memory(data_dir, add_model, start_child):
    store = Store.open(data_dir)
    add_model(store)
    store.close()
    output, _ = start_child(UPLOAD, data_dir).communicate(timeout=DEADLINE_S)
    assert int(output) < 32 * 1024


@pytest.fixture
def used_bytes():
    """What SQLite takes in this process, besides what earlier tests have left open."""
    gc.collect()
    used = ctypes.CDLL(pytest.importorskip("_sqlite3").__file__).sqlite3_memory_used
    before = used()
    return lambda: used() - before


def test_a_closed_store_keeps_no_memory_of_uploads(data_dir, add_model, upload, used_bytes):
    before = used_bytes()
    store = Store.open(data_dir)
    upload(store, add_model(store), [1] * 20)
    store.close()
    assert used_bytes() - before < 10 * 2**10


def test_readers_give_their_page_caches_back_once_nothing_is_written(
    store, add_model, upload, used_bytes
):
    model = add_model(store)
    for number in range(4):
        upload(store, model, [1] * 5000, first=5000 * number)
    wait_until(lambda: used_bytes() < 2**20, "the writer's cache to be given back")
    before = used_bytes()
    with store._readers.snapshot() as one, store._readers.snapshot() as other:
        for connection in (one, other):
            connection.execute("SELECT max(length(sha256)) FROM samples NOT INDEXED").fetchone()
    assert used_bytes() - before > 300 * 2**10
    store.policy.set_paused(True)
    wait_until(lambda: used_bytes() - before < 100 * 2**10, "the readers' to be given back")


def test_a_writer_that_never_rests_keeps_few_pages_of_a_large_database(
    store, add_model, upload, used_bytes
):
    model = add_model(store)
    before = used_bytes()
    for number in range(16):
        upload(store, model, [1] * 5000, first=5000 * number)
    assert store.database.stat().st_size > 10 * 2**20
    assert used_bytes() - before < 3 * 2**20


def test_uploads_and_deletions_of_many_sizes_keep_no_statement_for_each(
    store, add_model, record_of, used_bytes
):
    model = add_model(store)

    def send(count, *, name):
        with store.samples.stage(model.id, 16) as staging:
            keys = [f"{name}-{count}-{n}" for n in range(count)]
            records = b"".join(map(record_of, range(count)))
            staging.add(records, [1] * count, key=keys, split=Split.TRAIN)
            staging.commit()

    def use(counts, *, name):
        for count in counts:
            send(count, name=name)
            store.samples.by_ids(model.id, range(count))
            set_quota(store, model.id, Quota(max_samples=count))
            set_quota(store, model.id, Quota())
        return used_bytes()

    before = use((1, 100, 300), name="first")
    wait_until(lambda: used_bytes() < 2**20, "the caches to be given back")
    assert use(range(101, 141), name="more") - before < 2**20


def test_a_writer_at_rest_gives_its_page_cache_back(store, add_model, upload, used_bytes):
    model = add_model(store)
    for number in range(4):
        upload(store, model, [1] * 5000, first=5000 * number)
    full = used_bytes()
    wait_until(lambda: used_bytes() < full - 3 * 2**18, "the cache of 1 MB to be given back")


def test_a_deleted_model_leaves_no_lock_of_its_packs(store, add_model, upload):
    def locks():
        gc.collect()
        return sum(isinstance(each, SharedLock) for each in gc.get_objects())

    before = locks()
    for number in range(5):
        upload(store, add_model(store, f"model{number}"), [1, 2])
        store.models.delete(f"model{number}")
    assert locks() == before
