"""Opens the database: a new one gets the newest schema, an older one is migrated."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

from storage.database.connection import connect_reader, connect_writer, sqlite3, translate
from storage.database.schema import (
    KNOWN,
    create_tables,
    migrate,
    migrations_of,
    require_migratable,
)
from storage.errors import DatabaseDamaged

CHECKED_AT_EVERY_START_BYTES = 32 << 20
"""A larger database is checked only after an unclean shutdown, so that starting stays quick."""


def open_database(path: Path, *, check: bool) -> sqlite3.Connection:
    """The writing connection, after any migrations. The caller holds the folder's lock.

    check: look for damage first, however large the database is. Raises StorageBroken, StorageFull,
    UnknownSchema.
    """
    applied: set[str] = set()
    try:
        _roll_back(path)
        if path.exists():
            # A read-only connection leaves a damaged or foreign database and its log as they are.
            with closing(connect_reader(path)) as reader:
                if check or path.stat().st_size <= CHECKED_AT_EVERY_START_BYTES:
                    check_database(reader)
                applied = migrations_of(reader)
                if applied and applied != set(KNOWN):
                    require_migratable(reader, applied)
        connection = connect_writer(path)
    except sqlite3.Error as error:
        raise translate(error) from error
    try:
        if not applied:
            create_tables(connection)
        else:
            migrate(connection, applied)
    except sqlite3.Error as error:
        connection.close()
        raise translate(error) from error
    except BaseException:
        connection.close()
        raise
    return connection


def _roll_back(path: Path) -> None:
    """Undo the change to WAL that a crash has interrupted; a read-only connection could not."""
    if path.exists() and path.with_name(f"{path.name}-journal").exists():
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("SELECT 1 FROM sqlite_schema").fetchall()


def check_database(connection: sqlite3.Connection) -> None:
    """Raises DatabaseDamaged if the database's structure is damaged."""
    try:
        findings = [row[0] for row in connection.execute("PRAGMA quick_check")]
    except sqlite3.Error as error:
        raise translate(error) from error
    if findings != ["ok"]:
        raise DatabaseDamaged(f"the database is damaged ({findings[0]})")


def is_sound_at_rest(path: Path) -> bool:
    """Whether a closed database is sound; it is read without the shared memory of open ones."""
    log = path.with_name(f"{path.name}-wal")
    if not path.exists() or (log.exists() and log.stat().st_size):
        return False
    uri = f"{path.absolute().as_uri()}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            check_database(connection)
    except (sqlite3.Error, DatabaseDamaged):
        return False
    return True


def is_lost(data_dir: Path) -> bool:
    """Whether the database is missing, but files or packs exist whose rows it held."""
    path = data_dir / "hone.db"
    if path.exists() and path.stat().st_size:
        return False
    kept = (data_dir / name for name in ("files", "packs"))
    return any(folder.is_dir() and any(folder.iterdir()) for folder in kept)
