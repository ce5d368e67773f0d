"""The schema's history: append-only, each step run once, in order.

`schema.sql` is what all of them together make; a test compares the two.
"""

from __future__ import annotations

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from storage.database.connection import sqlite3
from storage.database.initial_schema import TABLES
from storage.database.sample_schema import STATEMENTS
from storage.database.schema import SET

migrations = Migrations(SET)


def migrate(connection: sqlite3.Connection) -> None:
    """Run the migrations that have not run yet."""
    migrations.apply(Database(connection, execute_plugins=False))


@migrations()
def m001_initial(db: Database) -> None:
    db.executescript(TABLES)


@migrations()
def m002_gate(db: Database) -> None:
    db.executescript(_GATE)


@migrations()
def m003_policy_and_triggers(db: Database) -> None:
    db.executescript(_POLICY_AND_TRIGGERS)


@migrations()
def m004_samples(db: Database) -> None:
    for statement in STATEMENTS:
        db.conn.execute(statement)


_GATE = """
ALTER TABLE models ADD COLUMN gate TEXT NOT NULL DEFAULT '{}';
ALTER TABLE models ADD COLUMN retention TEXT NOT NULL DEFAULT '{}';
ALTER TABLE models ADD COLUMN held_since TEXT;
ALTER TABLE models ADD COLUMN reference_frozen_at TEXT;

ALTER TABLE versions ADD COLUMN verdict TEXT NOT NULL DEFAULT '{}';
ALTER TABLE versions ADD COLUMN provenance TEXT NOT NULL DEFAULT '{}';

CREATE TABLE promotions (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model_id INTEGER NOT NULL,
  version INTEGER NOT NULL,
  promoted_at TEXT NOT NULL,
  FOREIGN KEY (model_id, version) REFERENCES versions (model_id, version) ON DELETE CASCADE
) STRICT;

CREATE INDEX promotions_by_version ON promotions (model_id, version);

INSERT INTO promotions (model_id, version, promoted_at)
SELECT model_id, version, created_at FROM versions WHERE promoted ORDER BY model_id, version;

INSERT INTO promotions (model_id, version, promoted_at)
SELECT model_id, version, created_at FROM aliases JOIN versions USING (model_id, version)
WHERE alias = 'latest' AND version <> (
  SELECT max(version) FROM versions AS others
  WHERE others.model_id = aliases.model_id AND others.promoted
);

CREATE TABLE variants (
  model_id INTEGER NOT NULL,
  version INTEGER NOT NULL,
  variant TEXT NOT NULL CHECK (variant IN ('int8', 'ort')),
  sha256 TEXT REFERENCES files (sha256),
  method TEXT NOT NULL,
  metrics TEXT NOT NULL,
  verdict TEXT NOT NULL,
  reason TEXT NOT NULL,
  created_at TEXT NOT NULL,
  PRIMARY KEY (model_id, version, variant),
  FOREIGN KEY (model_id, version) REFERENCES versions (model_id, version) ON DELETE CASCADE
) STRICT, WITHOUT ROWID;

CREATE INDEX variants_by_file ON variants (sha256);

CREATE TABLE reference_samples (
  sample_id INTEGER PRIMARY KEY REFERENCES samples (id) ON DELETE CASCADE,
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE
) STRICT;

CREATE INDEX reference_samples_by_model ON reference_samples (model_id);
"""

_POLICY_AND_TRIGGERS = """
ALTER TABLE jobs ADD COLUMN priority INTEGER NOT NULL DEFAULT 0;

CREATE TABLE policy (
  id INTEGER PRIMARY KEY CHECK (id = 1),
  settings TEXT,
  snoozed_until TEXT,
  paused INTEGER NOT NULL DEFAULT 0
) STRICT;

INSERT INTO policy (id) VALUES (1);

CREATE TABLE training_days (
  day TEXT PRIMARY KEY,
  seconds REAL NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE triggers (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  rule TEXT NOT NULL,
  hyperparameters TEXT NOT NULL,
  priority INTEGER NOT NULL,
  enabled INTEGER NOT NULL,
  created_at TEXT NOT NULL,
  labelled INTEGER NOT NULL,
  tried_at TEXT,
  fired_at TEXT,
  job_id INTEGER,
  outcome TEXT NOT NULL DEFAULT ''
) STRICT;

CREATE INDEX triggers_by_model ON triggers (model_id);
"""
