import hashlib
import re
import sqlite3
import subprocess
import sys
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
import sqlite_utils

import storage.database
from service.processes.interpreter import start_silently
from storage.database import migrations
from storage.database.schema import is_current, migrated_meanwhile
from storage.database.steps import KNOWN, SET
from storage.records.jobs import MetricPoint
from storage.store import Store

SCHEMA = Path(storage.database.__file__).with_name("schema.sql").read_text(encoding="utf-8")
RELEASED = Path(__file__).parent / "schemas"
FIRST_ROWS = """
CREATE TABLE _sqlite_migrations (
  id INTEGER PRIMARY KEY, migration_set TEXT, name TEXT, applied_at TEXT
);
INSERT INTO _sqlite_migrations VALUES (1, 'hone', 'm001_initial', '2026-01-01');
INSERT INTO events VALUES (7, 'model.created', 'm', '{}', '2026-01-01T00:00:00+00:00');
INSERT INTO models VALUES (
  3, 'm', '2026-01-01T00:00:00+00:00', 'cross_entropy', 'adamw', 'logits',
  '{"inputs": [], "target": {"name": "t", "dtype": "int64", "shape": [], "num_classes": 2,
    "classes": null}}', '[]', 0, 0, '{}', '[]'
);
INSERT INTO packs VALUES (3, 1, 9);
INSERT INTO samples VALUES (5, 3, 1, 0, 4, 'train', 1, 'k', x'00', '2026-01-01T00:00:00+00:00');
INSERT INTO samples VALUES (6, 3, 1, 4, 5, 'train', NULL, NULL, x'00', '2026-01-01T00:00:00+00:00');
INSERT INTO sample_counts VALUES (3, 'train', 1, 1), (3, 'train', -1, 1);
"""

FOURTH_ROWS = """
CREATE TABLE _sqlite_migrations (
  id INTEGER PRIMARY KEY, migration_set TEXT, name TEXT, applied_at TEXT
);
INSERT INTO _sqlite_migrations VALUES
  (1, 'hone', 'm001_initial', '2026-01-01'), (2, 'hone', 'm002_gate', '2026-01-01'),
  (3, 'hone', 'm003_policy_and_triggers', '2026-01-01'), (4, 'hone', 'm004_samples', '2026-01-01');
INSERT INTO policy (id) VALUES (1);
INSERT INTO models VALUES (
  3, 'm', '2026-01-01T00:00:00+00:00', 'cross_entropy', 'adamw', 'logits',
  '{"inputs": [], "target": {"name": "t", "dtype": "int64", "shape": [], "num_classes": 2,
    "classes": null}}', '[]', 0, 0, '{}', '[]', '{}', '{}', NULL, NULL, '[]', '{}', 4
);
INSERT INTO files VALUES ('EMPTY', 0);
INSERT INTO model_files VALUES (3, 'training_model', 'EMPTY');
INSERT INTO versions VALUES
  (3, 1, 'EMPTY', '2026-01-01T00:00:00+00:00', NULL, NULL, '{}', '{}', 1, 'registered', '{}', '{}');
INSERT INTO aliases VALUES (3, 'latest', 1);
INSERT INTO variants VALUES
  (3, 1, 'int8', NULL, 'dynamic', '{}', '{}', 'worse', '2026-01-01T00:00:00+00:00');
INSERT INTO packs VALUES (3, 1, 4, 0);
INSERT INTO samples VALUES
  (5, 3, 1, 0, 4, 'train', 1, 'k', x'00', '2026-01-01T00:00:00+00:00', 0, NULL);
INSERT INTO sample_counts VALUES (3, 'train', 1, 1);
""".replace("EMPTY", hashlib.sha256(b"").hexdigest())

SIXTH_ROWS = """
CREATE TABLE _sqlite_migrations (
  id INTEGER PRIMARY KEY, migration_set TEXT, name TEXT, applied_at TEXT
);
INSERT INTO _sqlite_migrations VALUES
  (1, 'hone', 'm001_initial', '2026-01-01'), (2, 'hone', 'm002_gate', '2026-01-01'),
  (3, 'hone', 'm003_policy_and_triggers', '2026-01-01'), (4, 'hone', 'm004_samples', '2026-01-01'),
  (5, 'hone', 'm005_twins_and_damage', '2026-01-01'), (6, 'hone', 'm006_engines', '2026-01-01');
INSERT INTO policy (id) VALUES (1);
INSERT INTO events VALUES (9, 'model.updated', 'm', '{}', '2026-01-01T00:00:00+00:00');
INSERT INTO models VALUES (
  3, 'm', '2026-01-01T00:00:00+00:00', 'cross_entropy', 'adamw', 'logits',
  '{"inputs": [], "target": {"name": "t", "dtype": "int64", "shape": [], "num_classes": 2,
    "classes": null}}', '[]', 0, 0, '{}', '[]', '{}', '{}', NULL, NULL, '[]', '{}', 4, 0, NULL,
  'sessions'
);
INSERT INTO packs VALUES (3, 1, 4, 0);
INSERT INTO samples VALUES
  (5, 3, 1, 0, 4, 'train', 1, 'k', x'00', '2026-01-01T00:00:00+00:00', 0, NULL);
INSERT INTO sample_counts VALUES (3, 'train', 1, 1);
"""


SEVENTEENTH_ROWS = """
INSERT INTO models (id, name, created_at, loss, optimizer, output, signature, trainable,
  trainable_parameters, frozen_parameters, hyperparameters, notes)
VALUES (3, 'm', '2026-01-01T00:00:00+00:00', 'cross_entropy', 'adamw', 'logits', '{}', '[]', 0, 0,
  '{}', '[]');
INSERT INTO jobs (id, model_id, state, cause, hyperparameters, start, ignore_policy, watermark,
  created_at, finished_at)
VALUES (8, 3, 'succeeded', 'request', '{}', 'latest', 0, 0, '2026-01-01T00:00:00+00:00',
  '2026-01-01T00:01:00+00:00');
INSERT INTO metrics VALUES (8, 1, 0, '{"train_loss":0.2}'), (8, 2, 0, '{"train_loss":0.1}');
"""


def note_migrations(connection, *, until):
    """Write which migrations have run, as the library does."""
    connection.execute(
        "CREATE TABLE _sqlite_migrations"
        " (id INTEGER PRIMARY KEY, migration_set TEXT, name TEXT, applied_at TEXT)"
    )
    connection.executemany(
        "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) VALUES (?, ?, '')",
        [(SET, name) for name in KNOWN[: KNOWN.index(until) + 1]],
    )
    connection.commit()


def schema_of(database):
    connection = sqlite3.connect(database)
    rows = connection.execute(
        "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite_%' "
        "AND name NOT LIKE '%_sqlite_migrations%'"
    ).fetchall()
    connection.close()
    # A column that a migration adds stands behind the line break of the one before it, and a table
    # that one renames has its name in quotes.
    return {
        name: re.sub(r" ?([,)])", r"\1", re.sub(r"\s+", " ", sql.strip())).replace('"', "")
        for name, sql in rows
    }


def of_schema_sql(folder):
    database = folder / "expected.db"
    connection = sqlite3.connect(database)
    connection.executescript(SCHEMA)
    connection.close()
    return database


def test_the_migrations_make_what_schema_sql_says(store, tmp_path):
    assert schema_of(store.database) == schema_of(of_schema_sql(tmp_path))


def test_a_database_of_the_first_schema_becomes_the_newest_and_keeps_its_rows(data_dir, tmp_path):
    data_dir.mkdir()
    connection = sqlite3.connect(data_dir / "hone.db")
    connection.executescript((RELEASED / "m001_initial.sql").read_text("utf-8"))
    connection.executescript(FIRST_ROWS)
    connection.close()
    folder = data_dir / "packs" / "3"
    folder.mkdir(parents=True)
    (folder / "1.pack").write_bytes(b"123456789")

    store = Store.open(data_dir)

    model = store.models.get("m")
    first, second = store.samples.list(3, limit=10)
    assert schema_of(store.database) == schema_of(of_schema_sql(tmp_path))
    assert [event.id for event in store.events.since(0, 10)] == [7]
    assert (model.preprocess, model.quota.max_samples) == ((), None)
    assert (first.pinned, first.quarantine, second.label) == (False, None, None)
    assert store.sample_stats.totals(3).size_bytes == 9
    store.close()


def test_a_database_of_the_fourth_schema_keeps_its_rows(data_dir, tmp_path):
    data_dir.mkdir()
    with closing(sqlite3.connect(data_dir / "hone.db")) as connection:
        connection.executescript((RELEASED / "m004_samples.sql").read_text("utf-8"))
        connection.executescript(FOURTH_ROWS)
    folder = data_dir / "packs" / "3"
    folder.mkdir(parents=True)
    (folder / "1.pack").write_bytes(b"1234")

    store = Store.open(data_dir)

    (variant,) = store.versions.get(3, 1).variants
    model = store.models.get("m")
    assert schema_of(store.database) == schema_of(of_schema_sql(tmp_path))
    assert (variant.name, variant.reason) == ("int8", "worse")
    assert store.samples.by_key(3, "k").id == 5
    assert (model.keeps_duplicates, model.features) == (False, None)
    assert store.versions.get(3, 1).target == model.signature.target
    store.close()


def test_a_database_of_the_sixth_schema_keeps_its_rows(data_dir, tmp_path):
    data_dir.mkdir()
    with closing(sqlite3.connect(data_dir / "hone.db")) as connection:
        connection.executescript((RELEASED / "m006_engines.sql").read_text("utf-8"))
        connection.executescript(SIXTH_ROWS)
    folder = data_dir / "packs" / "3"
    folder.mkdir(parents=True)
    (folder / "1.pack").write_bytes(b"1234")

    store = Store.open(data_dir)

    assert schema_of(store.database) == schema_of(of_schema_sql(tmp_path))
    assert [event.id for event in store.events.since(0, 10)] == [9]
    assert store.samples.by_key(3, "k").owner is None
    assert store.tokens.list() == []
    store.close()


def test_a_curve_of_the_seventeenth_schema_can_be_read_and_is_forgotten_in_its_time(data_dir):
    data_dir.mkdir()
    name = "m017_device_history_and_job_logs"
    with closing(sqlite3.connect(data_dir / "hone.db")) as connection:
        connection.executescript((RELEASED / f"{name}.sql").read_text("utf-8"))
        note_migrations(connection, until=name)
        connection.executescript(SEVENTEENTH_ROWS)
    store = Store.open(data_dir)
    assert store.metrics.list(8, 10, 1) == [MetricPoint(2, 0, {"train_loss": 0.1})]
    store.history.prune(timedelta(days=1))
    assert store.metrics.list(8, 10) == []
    store.close()


@pytest.mark.parametrize("path", sorted(RELEASED.iterdir()), ids=lambda path: path.stem)
def test_a_database_of_any_schema_before_becomes_the_newest(path, data_dir, tmp_path):
    data_dir.mkdir()
    with closing(sqlite3.connect(data_dir / "hone.db")) as connection:
        connection.executescript(path.read_text("utf-8"))
        note_migrations(connection, until=path.stem)
    store = Store.open(data_dir)
    assert schema_of(store.database) == schema_of(of_schema_sql(tmp_path))
    store.close()


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


def test_every_migration_is_known_by_name():
    with closing(sqlite_utils.Database(memory=True)) as empty:
        pending = migrations.migrations.pending(empty)
    assert tuple(migration.name for migration in pending) == KNOWN


def test_another_process_migrates_a_new_folder_while_modules_load(data_dir):
    with migrated_meanwhile(data_dir, start=start_silently):
        pass
    connection = sqlite3.connect(data_dir / "hone.db")
    assert is_current(connection)
    connection.close()
    code = (
        "import sys, pathlib; from storage.store import Store; "
        "Store.open(pathlib.Path(sys.argv[1])).close(); print('sqlite_utils' in sys.modules)"
    )
    run = subprocess.run(
        [sys.executable, "-c", code, str(data_dir)], capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == "False"


def test_a_folder_that_another_daemon_owns_is_left_alone(store, data_dir):
    before = schema_of(store.database)
    run = subprocess.run(
        [sys.executable, "-m", "storage.database.schema", str(data_dir)], check=False
    )
    assert run.returncode == 0
    assert schema_of(store.database) == before
