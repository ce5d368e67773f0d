import re
import sqlite3
from pathlib import Path

import storage
from storage.store import Store

SCHEMA = Path(storage.__file__).with_name("schema.sql").read_text(encoding="utf-8")


def schema_of(database):
    connection = sqlite3.connect(database)
    rows = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' "
        "AND name NOT LIKE '%_sqlite_migrations%'"
    ).fetchall()
    connection.close()
    return {name: re.sub(r"\s+", " ", sql) for name, sql in rows}


def test_the_migrations_make_what_schema_sql_says(store, tmp_path):
    expected = tmp_path / "expected.db"
    connection = sqlite3.connect(expected)
    connection.executescript(SCHEMA)
    connection.close()
    assert schema_of(store.database) == schema_of(expected)


def test_a_database_of_the_first_schema_opens_with_its_rows(data_dir):
    data_dir.mkdir()
    database = data_dir / "hone.db"
    connection = sqlite3.connect(database)
    connection.executescript(SCHEMA)
    connection.executescript(
        "CREATE TABLE _sqlite_migrations (id INTEGER PRIMARY KEY, migration_set TEXT, name TEXT, "
        "applied_at TEXT);"
        "INSERT INTO _sqlite_migrations VALUES (1, 'hone', 'm001_initial', '2026-01-01');"
        "INSERT INTO events VALUES (7, 'model.created', 'm', '{}', '2026-01-01T00:00:00+00:00');"
    )
    connection.close()
    store = Store.open(data_dir)
    assert [event.id for event in store.events.since(0, 10)] == [7]
    store.close()


def test_the_database_is_set_up_for_safety(store):
    connection = store._db.conn
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
    rows = store._db.conn.execute("PRAGMA table_list").fetchall()
    loose = {row["name"] for row in rows if row["type"] == "table" and not row["strict"]}
    assert {name for name in loose if "sqlite_" not in name} == set()
