"""A database that breaks gives way to its newest backup that is sound."""

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from backups import cut_short
from stored import publish, start_job

from storage.backup.reconciling import Lost
from storage.errors import StorageBroken
from storage.samples.filter import SampleFilter
from storage.store import Store

NOON = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)


def spoil(path):
    """Overwrite pages in the middle, as a dying medium does."""
    content = bytearray(path.read_bytes())
    for page in range(5, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(content)


def end_badly(data_dir):
    (data_dir / "hone.lock").write_text("12345")


@pytest.fixture
def backed_up(data_dir, add_model, upload):
    """Two samples and a backup of them, then two more; closed."""
    store = Store.open(data_dir)
    model = add_model(store)
    upload(store, model, [1, 2])
    store.backups.make(NOON)
    upload(store, model, [3, 4], first=2)
    store.close()
    return data_dir


def test_bytes_that_no_restored_row_names_are_overwritten(data_dir, add_model, upload, record_of):
    store = Store.open(data_dir)
    model = add_model(store)
    upload(store, model, [1] * 4)
    store.backups.make(NOON)
    upload(store, model, [1] * 4, first=4)
    store.samples.delete_where(model.id, SampleFilter(up_to=2))
    store.samples.delete(model.id, 5)
    store.samples.delete(model.id, 6)
    (pack,) = store.packs_dir.glob("1/*")
    assert pack.read_bytes() == b"".join(map(record_of, (2, 3, 6, 7)))
    store.close()
    spoil(data_dir / "hone.db")
    end_badly(data_dir)

    store = Store.open(data_dir)

    assert contents(store) == [record_of(2), record_of(3)]
    (pack,) = store.packs_dir.glob("1/*")
    assert pack.read_bytes() == record_of(2) + record_of(3)
    store.close()


DIE_WITH_A_LOG = """
import sys
from pathlib import Path
from storage.store import Store
store = Store.open(Path(sys.argv[1]))
for turn in range(50):
    store.events.append("model.updated", None, {"turn": turn})
print("stored", flush=True)
sys.stdin.readline()
"""


def contents(store, model_id=1):
    found = store.samples.list(model_id, limit=1000)
    return [store.samples.content(model_id, sample.id) for sample in found]


BROKEN = {
    "spoiled": spoil,
    "no database": lambda path: path.write_bytes(b"not a database at all" * 100),
    "empty": lambda path: path.write_bytes(b""),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("how", BROKEN)
def test_the_newest_backup_takes_its_place(backed_up, record_of, how, caplog):
    BROKEN[how](backed_up / "hone.db")
    end_badly(backed_up)

    store = Store.open(backed_up, now=lambda: NOON + timedelta(hours=30))

    assert contents(store) == [record_of(0), record_of(1)]
    assert (store.packs_dir / "1" / "1.pack").stat().st_size == 32
    note = store.restoration
    assert note.backup_from == "2026-01-31T12:00:00.000000+00:00"
    assert note.restored_at == "2026-02-01T18:00:00.000000+00:00"
    assert note.lost == {"samples": 0, "versions": 0, "checkpoints": 0, "variants": 0, "files": 0}
    assert [each.type for each in store.events.since(0, 100)][-1] == "database.restored"
    (told,) = [record for record in caplog.records if record.getMessage() == "database.restored"]
    assert told.levelname == "ERROR"
    assert told.fields["backup_from"] == note.backup_from
    store.close()
    assert Store.open(backed_up).restoration == note


def spoil_table(path, name):
    """Overwrite the first page of one table."""
    with closing(sqlite3.connect(path)) as connection:
        query = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
        (page,) = connection.execute(query, (name,)).fetchone()
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)


@pytest.mark.parametrize(
    ("checked_at_every_start_bytes", "damaged"), [(1 << 30, "triggers"), (0, "packs")]
)
def test_damage_after_a_clean_end_is_found_at_the_first_start(
    backed_up, record_of, monkeypatch, checked_at_every_start_bytes, damaged
):
    """By the check of a database that is small, or by the repairs of one that is not."""
    limit = "storage.database.opening.CHECKED_AT_EVERY_START_BYTES"
    monkeypatch.setattr(limit, checked_at_every_start_bytes, raising=False)
    spoil_table(backed_up / "hone.db", damaged)

    store = Store.open(backed_up)

    assert store.triggers.list() == []
    assert contents(store) == [record_of(0), record_of(1)]
    store.close()


def test_what_was_damaged_is_set_aside_as_it_was(backed_up, start_child):
    child = start_child(DIE_WITH_A_LOG, backed_up)
    assert child.stdout.readline() == "stored\n"
    child.kill()
    child.wait()
    spoil(backed_up / "hone.db")
    before = {name: (backed_up / name).read_bytes() for name in ("hone.db", "hone.db-wal")}
    assert len(before["hone.db-wal"]) > 4096

    store = Store.open(backed_up)

    aside = Path(store.restoration.set_aside)
    assert {name: (aside / name).read_bytes() for name in before} == before
    store.samples.delete(1, 1)
    assert [path.name for path in aside.iterdir()] == ["note.json"]
    store.close()


def test_a_change_to_wal_that_a_power_cut_has_interrupted_is_undone(backed_up, record_of):
    cut_short(backed_up / "hone.db")

    store = Store.open(backed_up)

    assert contents(store) == [record_of(number) for number in range(4)]
    store.close()


def test_the_journal_of_a_database_that_is_gone_is_set_aside(backed_up, record_of):
    cut_short(backed_up / "hone.db")
    BROKEN["gone"](backed_up / "hone.db")

    store = Store.open(backed_up)

    assert contents(store) == [record_of(0), record_of(1)]
    assert (Path(store.restoration.set_aside) / "hone.db-journal").exists()
    store.close()


def test_a_backup_that_is_not_sound_is_passed_over(backed_up, record_of):
    store = Store.open(backed_up)
    store.backups.make(NOON + timedelta(days=1))
    store.close()
    spoil(next(backed_up.glob("backups/20260201*")))
    spoil(backed_up / "hone.db")
    end_badly(backed_up)

    store = Store.open(backed_up)

    assert contents(store) == [record_of(0), record_of(1)]
    store.close()


def test_without_a_sound_backup_the_start_says_what_to_do(backed_up):
    spoil(next(backed_up.glob("backups/*.db")))
    spoil(backed_up / "hone.db")
    before = (backed_up / "hone.db").read_bytes()
    end_badly(backed_up)

    for _ in range(2):
        with pytest.raises(StorageBroken, match=r"honed restore FILE --replace") as raised:
            Store.open(backed_up)
    assert str(backed_up / "backups") in raised.value.detail
    assert (backed_up / "hone.db").read_bytes() == before
    assert not list(backed_up.glob("broken/*"))


def test_nothing_is_swept_where_the_database_is_gone(backed_up):
    (backed_up / "hone.db").unlink()
    next(backed_up.glob("backups/*.db")).unlink()
    kept = sorted(backed_up.glob("packs/*/*")) + sorted(backed_up.glob("files/*/*"))

    with pytest.raises(StorageBroken, match="database is gone"):
        Store.open(backed_up)
    subprocess.run([sys.executable, "-m", "storage.database.opening", str(backed_up)], check=True)

    assert all(path.exists() for path in kept)
    assert not (backed_up / "hone.db").exists()


def test_rows_whose_bytes_are_gone_go_and_aliases_find_another_version(
    data_dir, add_model, upload, record_of
):
    store = Store.open(data_dir)
    model = add_model(store)
    upload(store, model, [1] * 10)
    published = [
        publish(store, start_job(store, model.id), b"version %d" % number) for number in (2, 3)
    ]
    store.backups.make(NOON)
    (copy,) = data_dir.glob("backups/*.db")
    content = copy.read_bytes()
    store.samples.delete_where(model.id, SampleFilter(up_to=8))
    store.files.path(published[1].file.sha256).unlink()
    store.close()
    copy.write_bytes(content)  # as if neither deletion nor compaction had reached it
    (data_dir / "cache" / "1").mkdir()
    spoil(data_dir / "hone.db")
    end_badly(data_dir)

    store = Store.open(data_dir)

    assert store.restoration.lost == {
        "samples": 10,
        "versions": 1,
        "checkpoints": 0,
        "variants": 0,
        "files": 1,
    }
    assert store.versions.by_alias(model.id, "latest").version == 2
    assert contents(store) == []
    assert store.sample_stats.counts(model.id).train == 0
    assert list((data_dir / "cache").iterdir()) == []
    upload(store, model, [7])
    assert contents(store) == [record_of(0)]
    store.close()
    assert Store.open(data_dir).lost == Lost()


CRASH = """
import os, sys
from pathlib import Path
from storage.store import Store

left = int(sys.argv[2])
rename = Path.replace

def crash_at_the_nth(self, target):
    global left
    left -= 1
    if left < 0:
        os._exit(9)
    return rename(self, target)

Path.replace = crash_at_the_nth
Store.open(Path(sys.argv[1])).close()
"""


def test_a_start_that_dies_while_it_restores_is_finished_by_the_next(
    backed_up, record_of, tmp_path
):
    spoil(backed_up / "hone.db")
    end_badly(backed_up)
    for renames in range(20):
        folder = tmp_path / f"copy-{renames}"
        shutil.copytree(backed_up, folder)
        crash = [sys.executable, "-c", CRASH, folder, str(renames)]
        ended = subprocess.run(crash, check=False)

        store = Store.open(folder)
        assert contents(store) == [record_of(0), record_of(1)], renames
        assert store.restoration.lost is not None
        store.close()
        if ended.returncode == 0:
            break
        assert ended.returncode == 9
    assert renames >= 4
