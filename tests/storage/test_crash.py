"""A process killed at any moment leaves whole uploads or nothing of them."""

import sqlite3

import pytest

from storage.store import Store

BATCH = 500
UPLOAD = """
import sys
from pathlib import Path
from storage.store import Store
store = Store.open(Path(sys.argv[1]))
model = store.models.get("digits")
records = b"".join(bytes([i % 251 + 1]) * 4096 for i in range(500))
while True:
    with store.samples.stage(model.id, 4096) as staging:
        staging.add(records, [i % 10 for i in range(500)])
        result = staging.commit()
    print(result.last_id, flush=True)
"""
LIVES = 5


@pytest.mark.parametrize("life", range(LIVES))
def test_nothing_is_half_stored_after_a_kill(data_dir, add_model, start_child, life):
    store = Store.open(data_dir)
    model = add_model(store)
    store.close()
    child = start_child(UPLOAD, data_dir)
    acknowledged = [int(child.stdout.readline()) for _ in range(1 + life)]
    child.kill()
    acknowledged += [int(line) for line in child.stdout if line.endswith("\n")]

    store = Store.open(data_dir)
    try:
        stored = store.sample_stats.counts(model.id)
        total = stored.train + stored.validation
        assert total % BATCH == 0
        assert total >= acknowledged[-1]
        for sample in store.samples.list(model.id, limit=total + 1):
            assert (
                store.samples.content(model.id, sample.id)[0] == (sample.id - 1) % BATCH % 251 + 1
            )
        assert list(store.tmp_dir.iterdir()) == []
        assert pack_sizes_on_disk(store) == pack_sizes_in_rows(store)
    finally:
        store.close()


def pack_sizes_on_disk(store):
    return {path.name: path.stat().st_size for path in store.packs_dir.glob("*/*")}


def pack_sizes_in_rows(store):
    connection = sqlite3.connect(store.database)
    rows = connection.execute("SELECT pack, size_bytes FROM packs").fetchall()
    connection.close()
    return {f"{pack}.pack": size_bytes for pack, size_bytes in rows}
