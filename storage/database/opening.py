"""Opens the database: a new one gets the newest schema, an older one is migrated.

The migrations' library should not take the daemon's memory: it is loaded only when there is
something to migrate, and `migrated_meanwhile` does that in a separate process while the daemon's
other modules load.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from storage.backup.swap import RESTORING
from storage.database.connection import (
    check_database,
    connect_reader,
    connect_writer,
    sqlite3,
    translated,
)
from storage.database.schema import KNOWN, create_tables, migrations_of, require_migratable
from storage.disk.lock import DataDirLock
from storage.errors import DatabaseDamaged, DataDirLocked, UnknownSchema

StartModule = Callable[[str, str], "subprocess.Popen[bytes]"]
CHECKED_AT_EVERY_START_BYTES = 32 << 20
"""A larger database is checked only after an unclean shutdown, so that starting stays quick."""


def open_database(path: Path, *, check: bool) -> sqlite3.Connection:
    """The writing connection, after any migrations. The caller holds the folder's lock.

    check: look for damage first, however large the database is. Raises StorageBroken, StorageFull,
    UnknownSchema.
    """
    applied: set[str] = set()
    with translated():
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
    try:
        with translated():
            if not applied:
                create_tables(connection)
            elif applied != set(KNOWN):
                from storage.database.migrations import migrate

                migrate(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _roll_back(path: Path) -> None:
    """Undo the change to WAL that a crash has interrupted; a read-only connection could not."""
    if path.exists() and path.with_name(f"{path.name}-journal").exists():
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("SELECT 1 FROM sqlite_schema").fetchall()


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


@contextmanager
def migrated_meanwhile(data_dir: Path, *, start: StartModule) -> Iterator[None]:
    """Migrate the schema of an older data folder in another process while the block runs.

    start: runs this module with an argument, in a separate process. Opening the store reports
    again whatever that process finds wrong.
    """
    if not _is_outdated(data_dir / "hone.db"):
        yield
        return
    migration = start("storage.database.opening", str(data_dir.absolute()))
    try:
        yield
    finally:
        migration.wait()


def _is_outdated(path: Path) -> bool:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as reader:
            return migrations_of(reader) not in (set(), set(KNOWN))
    except (sqlite3.Error, UnknownSchema):
        return False


def main() -> None:
    """`python -m storage.database.opening DATA_DIR`: migrate, unless a process has the folder.

    If a backup must be restored first, opening the store does both.
    """
    data_dir = Path(sys.argv[1])
    if is_lost(data_dir) or (data_dir / RESTORING).exists():
        return
    try:
        lock = DataDirLock(data_dir / "hone.lock")
    except DataDirLocked:
        return
    clean = False
    try:
        open_database(data_dir / "hone.db", check=lock.unclean).close()
        clean = True
    finally:
        lock.release(clean=clean)


if __name__ == "__main__":
    main()
