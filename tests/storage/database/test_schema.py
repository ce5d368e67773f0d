import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
import sqlite_utils
from stored import SCHEMAS, make_older

import storage.database
from service.processes.interpreter import start_silently
from storage.database import migrations
from storage.database.connection import connect_writer
from storage.database.opening import migrated_meanwhile
from storage.database.schema import KNOWN, OLDER_OBJECTS, objects_digest, objects_of
from storage.disk.lock import DataDirLock
from storage.errors import UnknownSchema
from storage.store import Store

SCHEMA = Path(storage.database.__file__).with_name("schema.sql").read_text(encoding="utf-8")
OLDER = """
CREATE TABLE _sqlite_migrations (
  id INTEGER PRIMARY KEY, migration_set TEXT, name TEXT, applied_at TEXT
);
INSERT INTO _sqlite_migrations VALUES
  (1, 'hone', 'm001_initial', '2026-01-01'), (2, 'hone', 'm018_curves', '2026-01-01');
CREATE TABLE samples (id INTEGER PRIMARY KEY) STRICT;
INSERT INTO samples VALUES (5);
"""


def schema_of(database):
    connection = sqlite3.connect(database)
    rows = connection.execute(
        "SELECT name, sql FROM sqlite_schema WHERE sql IS NOT NULL"
    ).fetchall()
    connection.close()
    return dict(rows)


def of_schema_sql(folder):
    database = folder / "expected.db"
    connection = sqlite3.connect(database)
    connection.executescript(SCHEMA)
    connection.close()
    return database


def test_a_new_database_has_the_tables_of_schema_sql(store, tmp_path):
    assert schema_of(store.database) == schema_of(of_schema_sql(tmp_path))


def test_a_start_that_was_killed_while_it_made_the_tables_makes_them_again(data_dir):
    data_dir.mkdir()
    connect_writer(data_dir / "hone.db").close()
    store = Store.open(data_dir)
    assert store.models.list(1) == []
    store.close()


def test_a_database_of_before_the_first_schema_is_refused_and_stays_as_it_is(data_dir):
    data_dir.mkdir()
    with closing(sqlite3.connect(data_dir / "hone.db")) as connection:
        connection.executescript(OLDER)
    before = (data_dir / "hone.db").read_bytes()
    with pytest.raises(UnknownSchema, match=r"m018_curves.*20e05d46.*honed archive export"):
        Store.open(data_dir)
    with closing(sqlite3.connect(data_dir / "hone.db")) as connection:
        assert connection.execute("SELECT id FROM samples").fetchall() == [(5,)]
    assert (data_dir / "hone.db").read_bytes() == before


def test_a_new_kind_of_variant_needs_no_new_schema(store, add_model):
    model = add_model(store)
    made = {"file": None, "method": "", "metrics": {}, "verdict": {}, "reason": "slower"}
    assert store.variants.add(model.id, 1, "int4", **made).name == "int4"


def test_the_database_is_set_up_for_safety(store):
    connection = store._connection
    settings = {
        name: connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "foreign_keys", "auto_vacuum", "secure_delete")
    }
    assert settings == {
        "journal_mode": "wal",
        "synchronous": 2,
        "foreign_keys": 1,
        "auto_vacuum": 2,
        "secure_delete": 1,
    }


def test_every_table_is_strict(store):
    rows = store._connection.execute("PRAGMA table_list").fetchall()
    loose = {row["name"] for row in rows if row["type"] == "table" and not row["strict"]}
    assert {name for name in loose if "sqlite_" not in name} == set()


@pytest.fixture(params=sorted(SCHEMAS.iterdir()), ids=lambda path: path.stem)
def older_folder(request, data_dir, add_model, upload):
    """A data folder with a sample, in an older schema."""
    store = Store.open(data_dir)
    upload(store, add_model(store), [1])
    store.close()
    make_older(data_dir / "hone.db", request.param)
    return data_dir


def test_a_database_with_other_tables_than_its_migrations_make_is_refused(older_folder):
    with closing(sqlite3.connect(older_folder / "hone.db")) as connection:
        connection.execute("DROP INDEX samples_by_owner")
    before = schema_of(older_folder / "hone.db")
    with pytest.raises(UnknownSchema, match="other tables than those of m001_first_schema"):
        Store.open(older_folder)
    assert schema_of(older_folder / "hone.db") == before


def test_a_database_of_any_schema_before_becomes_the_newest(older_folder, record_of, tmp_path):
    store = Store.open(older_folder)
    assert schema_of(store.database) == schema_of(of_schema_sql(tmp_path))
    assert store.samples.content(1, 1) == record_of(0)
    store.close()


def test_another_process_migrates_an_older_folder_meanwhile(older_folder, tmp_path):
    begun = []

    def start(module, argument):
        begun.append(start_silently(module, argument))
        return begun[0]

    with migrated_meanwhile(older_folder, start=start):
        assert len(begun) == 1
    assert begun[0].returncode == 0
    assert schema_of(older_folder / "hone.db") == schema_of(of_schema_sql(tmp_path))
    with migrated_meanwhile(older_folder, start=start):
        assert len(begun) == 1


def test_an_older_folder_that_another_daemon_owns_is_left_alone(older_folder):
    before = schema_of(older_folder / "hone.db")
    lock = DataDirLock(older_folder / "hone.lock")
    with migrated_meanwhile(older_folder, start=start_silently):
        pass
    assert schema_of(older_folder / "hone.db") == before
    lock.release(clean=True)


def test_every_migration_is_known_by_name():
    with closing(sqlite_utils.Database(memory=True)) as empty:
        pending = migrations.migrations.pending(empty)
    assert ("m001_first_schema", *(migration.name for migration in pending)) == KNOWN


def test_the_objects_of_every_older_schema_are_known():
    digests = {}
    for path in SCHEMAS.glob("*.sql"):
        with closing(sqlite3.connect(":memory:")) as connection:
            connection.executescript(path.read_text("utf-8"))
            digests[path.stem] = objects_digest(objects_of(connection))
    assert digests == OLDER_OBJECTS
    assert (*OLDER_OBJECTS, KNOWN[-1]) == KNOWN


def test_a_new_folder_needs_no_library_of_migrations(data_dir):
    code = (
        "import sys, pathlib; from storage.store import Store; "
        "Store.open(pathlib.Path(sys.argv[1])).close(); print('sqlite_utils' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(data_dir)], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "False"
