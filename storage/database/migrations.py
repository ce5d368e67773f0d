"""The migrations after the first schema: append-only, each once, in order.

`schema.sql` is the result of all of them, and what a new database begins with.
"""

from __future__ import annotations

from sqlite_utils import Database
from sqlite_utils.migrations import Migrations

from storage.database.connection import sqlite3
from storage.database.schema import SET

migrations = Migrations(SET)


def migrate(connection: sqlite3.Connection) -> None:
    """Run the migrations that have not run yet."""
    migrations.apply(Database(connection, execute_plugins=False))
