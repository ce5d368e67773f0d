"""The migrations after the first schema: append-only, each once, in order.

`schema.sql` is the result of all of them, and what a new database begins with.
"""

from __future__ import annotations

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from storage.database.connection import sqlite3
from storage.database.schema import SET, run

# Threads that erased at once have left bytes in packs (`leftovers`): any may hold some.
_DELETIONS = """
ALTER TABLE packs RENAME TO packs_before;
CREATE TABLE packs (
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  pack INTEGER NOT NULL,
  size_bytes INTEGER NOT NULL,
  erased_bytes INTEGER NOT NULL DEFAULT 0,
  leftovers INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (model_id, pack)
) STRICT, WITHOUT ROWID;
INSERT INTO packs SELECT *, 1 FROM packs_before;
DROP TABLE packs_before;
CREATE TABLE deletions (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  ids BLOB,
  condition TEXT NOT NULL DEFAULT '{}'
) STRICT;
CREATE INDEX deletions_by_model ON deletions (model_id);
ALTER TABLE erasures RENAME TO erasures_before;
CREATE TABLE erasures (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  model_id INTEGER NOT NULL REFERENCES models (id) ON DELETE CASCADE,
  pack INTEGER NOT NULL,
  offset INTEGER NOT NULL,
  length INTEGER NOT NULL,
  sample_id INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO erasures SELECT * FROM erasures_before;
DROP TABLE erasures_before;
CREATE INDEX erasures_by_model ON erasures (model_id);
"""

migrations = Migrations(SET)


def migrate(connection: sqlite3.Connection) -> None:
    """Run the migrations that have not run yet."""
    migrations.apply(Database(connection, execute_plugins=False))


@migrations()
def m002_deletions(db: Database) -> None:
    run(db.conn, _DELETIONS)
