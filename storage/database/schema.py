"""The newest schema, and the migrations that a database has seen on its way to it."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import sha256
from pathlib import Path

from storage.database.codec import dump
from storage.database.connection import sqlite3
from storage.errors import UnknownSchema

SCHEMA = Path(__file__).with_name("schema.sql")
SET = "hone"
KNOWN = ("m001_first_schema", "m002_deletions")
"""The first schema, and the functions of `storage.database.migrations`, in order."""
OLDER_OBJECTS = {
    "m001_first_schema": "bd0f8baefe0cef66023279dfcb3517b1063ddb53c1720e57b5f05a66e4c10f04"
}
"""`objects_digest` after each migration but the last."""
_OBJECTS = "SELECT type, name, sql FROM sqlite_schema"
UNRELEASED = "m001_initial"
"""The first of the eighteen migrations that preceded the first schema."""


def create_tables(connection: sqlite3.Connection) -> None:
    """Make the tables of the newest schema, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    run(connection, SCHEMA.read_text(encoding="utf-8"))
    names = [(SET, name) for name in KNOWN]
    connection.executemany(
        "INSERT INTO _sqlite_migrations (migration_set, name, applied_at)"
        " VALUES (?, ?, datetime('now'))",
        names,
    )
    connection.execute("COMMIT")


def objects_of(connection: sqlite3.Connection) -> set[tuple[str, str, str | None]]:
    """Kind, name and definition of every table, index, trigger and view."""
    return {(row[0], row[1], row[2]) for row in connection.execute(_OBJECTS)}


def objects_digest(objects: Iterable[tuple[str, str, str | None]]) -> str:
    """SHA-256 by which the objects of an older schema are known again."""
    return sha256(dump(sorted(objects, key=str)).encode()).hexdigest()


def run(connection: sqlite3.Connection, script: str) -> None:
    """Execute statements in the transaction; each must end at the end of a line.

    executescript would commit first, and look for the end of a statement at every character.
    """
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            connection.execute(statement)
            statement = ""


def unreleased(what: str) -> UnknownSchema:
    """The error for a database of a schema that no release had."""
    return UnknownSchema(
        f"the database was written by a Hone before its first release ({what}), whose tables this "
        "one does not read; nothing was changed. With that Hone (of commit 20e05d46, if it wrote "
        "m018 or less), write each model's samples by `honed archive export` and its newest file "
        "by `honed fetch`; then start this one on an empty folder, `honed models add` them and "
        "`honed archive import` their samples"
    )


def require_migratable(connection: sqlite3.Connection, applied: set[str]) -> None:
    """Raises UnknownSchema unless the tables are those that these migrations make."""
    newest = max(applied, key=KNOWN.index)
    if objects_digest(objects_of(connection)) != OLDER_OBJECTS.get(newest):
        raise unreleased(f"with other tables than those of {newest}")


def migrations_of(connection: sqlite3.Connection) -> set[str]:
    """Names of the migrations that have run; none for a new database.

    Raises UnknownSchema if this Hone does not know one of them.
    """
    exists = "SELECT 1 FROM sqlite_schema WHERE name = '_sqlite_migrations'"
    if connection.execute(exists).fetchone() is None:
        return set()
    names = "SELECT name FROM _sqlite_migrations WHERE migration_set = ?"
    applied = {row[0] for row in connection.execute(names, (SET,))}
    if UNRELEASED in applied:
        raise unreleased(max(applied))
    if unknown := applied - set(KNOWN):
        raise UnknownSchema(
            f"the database has migrations that this Hone does not know: "
            f"{', '.join(sorted(unknown))}; "
            "install the newer Hone that wrote it, or restore an older backup"
        )
    return applied
