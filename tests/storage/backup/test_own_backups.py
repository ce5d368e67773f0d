"""The daemon's own backups: few, sound, and without what was deleted."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import datetime, timedelta, timezone

import pytest

from storage.backup.copies import check_copy
from storage.backup.own_backups import made_at
from storage.errors import DatabaseDamaged, StorageBroken
from storage.samples.filter import SampleFilter
from storage.store import Store

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
SECRET = "patient-4711-secret"


def rows(path, sql):
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def backups(store):
    return sorted(store.data_dir.glob("backups/*"))


def test_one_a_day_is_kept_for_three_days(store, add_model):
    add_model(store)
    for hours in (0, 5, 24, 48, 50, 72):
        store.backups.make(NOON + timedelta(hours=hours))

    kept = [made_at(path) - NOON for path in backups(store)]

    assert kept == [timedelta(hours=hours) for hours in (24, 50, 72)]
    assert store.backups.newest(NOON + timedelta(hours=73)) == NOON + timedelta(hours=72)


def test_backups_of_a_clock_that_was_ahead_go_first(store, add_model):
    add_model(store)
    for days in (100, 101, 102, 0, 1):
        store.backups.make(NOON + timedelta(days=days))

    kept = [(made_at(path) - NOON).days for path in backups(store)]

    assert kept == [0, 1, 102]
    assert store.backups.newest(NOON + timedelta(days=2)) == NOON + timedelta(days=1)


def test_nothing_is_backed_up_before_there_is_a_model(store):
    assert store.backups.make(NOON) is None
    assert backups(store) == []


def test_deleted_samples_are_deleted_in_every_backup(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1, 2, 3], key=["a", SECRET, "c"])
    for day in range(3):
        store.backups.make(NOON + timedelta(days=day))
    assert all(SECRET.encode() in path.read_bytes() for path in backups(store))

    store.samples.delete(model.id, 2)

    assert len(backups(store)) == 3
    for path in backups(store):
        assert SECRET.encode() not in path.read_bytes()
        assert rows(path, "SELECT id FROM samples ORDER BY id") == [(1,), (3,)]
        assert rows(path, "SELECT sum(count) FROM sample_counts") == [(2,)]
        assert rows(path, "PRAGMA integrity_check") == [("ok",)]


def test_samples_of_a_pack_written_anew_are_found_by_a_backup(store, add_model, upload, record_of):
    model = add_model(store)
    store.backups.make(NOON - timedelta(days=1))
    upload(store, model, [1] * 10)
    store.backups.make(NOON)
    add_model(store, "younger")

    store.samples.delete_where(model.id, SampleFilter(up_to=8))

    before, path = backups(store)
    assert rows(before, "SELECT * FROM packs") == []
    assert rows(path, "SELECT pack, size_bytes FROM packs") == [(2, 32)]
    pack = (store.packs_dir / str(model.id) / "2.pack").read_bytes()
    placed = rows(path, "SELECT offset, length FROM samples WHERE pack = 2 ORDER BY id")
    assert [pack[offset : offset + n] for offset, n in placed] == [record_of(8), record_of(9)]


DIE_WITH_A_PACK_WRITTEN_ANEW = """
import os, sys
from pathlib import Path
from storage.backup.copies import Copies
from storage.samples.filter import SampleFilter
from storage.store import Store

Copies.follow = lambda *_: os._exit(9)
Store.open(Path(sys.argv[1])).samples.delete_where(1, SampleFilter(up_to=8))
"""


def test_backups_find_the_samples_of_a_pack_written_anew_just_before_a_kill(
    data_dir, add_model, upload, record_of
):
    store = Store.open(data_dir)
    upload(store, add_model(store), [1] * 10)
    store.backups.make(NOON)
    store.close()
    killed = [sys.executable, "-c", DIE_WITH_A_PACK_WRITTEN_ANEW, str(data_dir)]
    assert subprocess.run(killed, check=False).returncode == 9
    Store.open(data_dir).close()
    (data_dir / "hone.db").unlink()

    store = Store.open(data_dir)

    assert store.restoration.lost["samples"] == 0
    assert [store.samples.content(1, id_) for id_ in (9, 10)] == [record_of(8), record_of(9)]
    store.close()


def test_deleted_models_are_deleted_in_every_backup(store, add_model, upload):
    upload(store, add_model(store), [1], key=[SECRET])
    add_model(store, "kept")
    store.backups.make(NOON)
    store.models.delete("digits")

    store.backups.forget_deleted_models()

    (path,) = backups(store)
    assert rows(path, "SELECT name FROM models") == [("kept",)]
    assert SECRET.encode() not in path.read_bytes()


def test_a_backup_that_cannot_be_changed_is_removed(store, add_model, upload):
    model = add_model(store)
    upload(store, model, [1], key=[SECRET])
    store.backups.make(NOON)
    (path,) = backups(store)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DROP TABLE erasures")

    store.samples.delete(model.id, 1)

    assert backups(store) == []


DIE_IN_A_CHANGE = """
import os, sys
import sqlite3
import subprocess
import sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA cache_size = 1")
connection.execute("PRAGMA cache_spill = 1")
connection.execute("BEGIN IMMEDIATE")
connection.execute("UPDATE samples SET key = key || 'changed'")
print("changed", flush=True)
sys.stdin.readline()
"""


def test_a_change_of_a_backup_that_a_crash_cut_short_is_taken_back(
    store, add_model, upload, start_child
):
    model = add_model(store)
    upload(store, model, [1] * 5000, key=[f"key-{number}" for number in range(5000)])
    store.backups.make(NOON)
    (path,) = backups(store)
    whole = path.read_bytes()
    child = start_child(DIE_IN_A_CHANGE, path)
    assert child.stdout.readline() == "changed\n"
    child.kill()
    child.wait()
    assert path.read_bytes() != whole
    assert len(backups(store)) == 2

    check_copy(path)

    assert backups(store) == [path]
    assert path.read_bytes() == whole
    store.samples.delete(model.id, 1)
    assert rows(path, "SELECT count(*) FROM samples") == [(4999,)]


def test_a_database_that_is_not_sound_makes_no_backup(store, add_model, upload):
    upload(store, add_model(store), [1] * 3000)
    store.backups.make(NOON)
    store._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    content = bytearray(store.database.read_bytes())
    for page in range(30, len(content) // 4096 - 1):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    with store.database.open("r+b") as file:
        file.write(content)

    with pytest.raises(DatabaseDamaged):
        store.backups.make(NOON + timedelta(days=1))

    (path,) = backups(store)
    assert rows(path, "SELECT count(*) FROM samples") == [(3000,)]
    assert issubclass(DatabaseDamaged, StorageBroken)
