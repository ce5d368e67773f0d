from contextlib import closing
from datetime import datetime, timezone

import numpy as np
import pytest
from stored import SCHEMAS, make_older

from storage.blobs.row_cache import RowCache
from storage.database.connection import connect_reader, sqlite3
from storage.store import Store

FORGOTTEN = 2
FIRST = SCHEMAS / "m001_first_schema.sql"


@pytest.fixture
def folder(data_dir, add_model, upload):
    """Four samples; one was deleted by a thread whose erasure another had forgotten."""
    store = Store.open(data_dir)
    model = add_model(store)
    upload(store, model, [1] * 4)
    store.backups.make(datetime(2026, 1, 1, tzinfo=timezone.utc))
    with RowCache.open(cache_of(data_dir), key="k", row_bytes=2, max_bytes=99) as cache:
        cache.append([1, FORGOTTEN], np.full((2, 2), 7, np.uint8))
    store.close()
    with closing(sqlite3.connect(data_dir / "hone.db", isolation_level=None)) as connection:
        connection.execute("DELETE FROM samples WHERE id = ?", (FORGOTTEN,))
    return data_dir


def cache_of(folder):
    return folder / "cache" / "1" / "tensors"


def ids_in_backup(folder):
    (backup,) = folder.glob("backups/*.db")
    with closing(connect_reader(backup)) as copy:
        return [row["id"] for row in copy.execute("SELECT id FROM samples ORDER BY id")]


def nothing_is_left(folder, record_of):
    (pack,) = folder.glob("packs/*/*")
    there = b"".join(bytes(16) if n == FORGOTTEN - 1 else record_of(n) for n in range(4))
    return (
        pack.read_bytes() == there
        and ids_in_backup(folder) == [1, 3, 4]
        and not (cache_of(folder) / "rows").exists()
    )


def test_the_first_start_after_an_older_hone_overwrites_what_its_threads_left(
    folder, record_of, caplog
):
    make_older(folder / "hone.db", FIRST)
    store = Store.open(folder)
    assert nothing_is_left(folder, record_of)
    assert store.eraser.pending_models() == []
    assert "erasure.leftovers" in caplog.text
    store.samples.delete(1, 1)  # it knew that the pack is half empty now
    (pack,) = folder.glob("packs/*/*")
    assert pack.read_bytes() == record_of(2) + record_of(3)
    store.close()


def test_a_verification_overwrites_what_no_erasure_is_recorded_for(folder, record_of, caplog):
    store = Store.open(folder)
    assert not nothing_is_left(folder, record_of)
    read = sum(store.verification.steps())
    assert nothing_is_left(folder, record_of)
    assert "erasure.leftovers" in caplog.text
    assert sum(store.verification.steps()) == read
    store.close()


def test_a_verification_leaves_alone_what_was_erased(folder, record_of, caplog):
    store = Store.open(folder)
    for _ in store.verification.steps():
        pass
    with RowCache.open(cache_of(folder), key="k", row_bytes=2, max_bytes=99) as cache:
        cache.append([1], np.full((1, 2), 7, np.uint8))
    caplog.clear()
    for _ in store.verification.steps():
        pass
    assert "erasure.leftovers" not in caplog.text
    assert (cache_of(folder) / "rows").exists()
    store.close()


def test_a_range_over_several_blocks_is_overwritten_to_its_last_byte(
    store, add_model, record_of, data_dir
):
    before, long, after = record_of(0), bytes(5 << 19) + b"\1", record_of(2)
    with store.samples.stage(add_model(store).id, None) as staging:
        staging.add(before + long + after, [1] * 3, lengths=[16, len(long), 16])
        staging.commit()
    store._writer.write(lambda each: each.execute("DELETE FROM samples WHERE id = 2"))
    for _ in store.verification.steps():
        pass
    (pack,) = data_dir.glob("packs/*/*")
    assert pack.read_bytes() == before + bytes(len(long)) + after
