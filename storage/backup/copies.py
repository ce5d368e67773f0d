"""Copies of the database: made, checked, and kept free of deleted samples.

A copy is one of the daemon's own backups, or part of a backup that is being sent. A deleted sample
must not survive in either, so each deletion is carried out in every copy before its bytes are
overwritten. A copy that cannot be changed is removed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

from storage.database.codec import utc_now
from storage.database.connection import Readers, check_database, sqlite3, translate, translated
from storage.database.transaction import Transaction
from storage.disk.durable import file_faults, free_bytes, sync_file
from storage.erasure.sample_rows import delete_samples, follow_places, places_of
from storage.errors import StorageFull, file_size

_logger = logging.getLogger(__name__)

Change = Callable[[Transaction], object]
FILES_OF_DATABASE = ("hone.db", "hone.db-journal", "hone.db-wal", "hone.db-shm")


class Copies:
    """The copies below a data folder.

    backups_dir: of the daemon's own backups. broken_dir: of databases that were set aside, which
    cannot be changed, so the first deletion removes them.
    """

    def __init__(self, *, backups_dir: Path, broken_dir: Path) -> None:
        self._backups_dir = backups_dir
        self._broken_dir = broken_dir
        self._being_sent: list[Path] = []
        self._lock = threading.Lock()

    @contextmanager
    def making(self) -> Iterator[None]:
        """Delay deletions while the block makes a copy: they would miss it."""
        with self._lock:
            yield

    def enter(self, path: Path) -> None:
        """Apply deletions to this copy too from now on; call it within `making`."""
        self._being_sent.append(path)

    @contextmanager
    def leaving(self, path: Path) -> Iterator[None]:
        """Stop applying deletions to a copy; none is under way while the block opens it."""
        with self._lock:
            if path in self._being_sent:
                self._being_sent.remove(path)
            yield

    def are_sent(self) -> bool:
        """Whether a backup is being sent, whose packs are ours under other names."""
        with self._lock:
            return bool(self._being_sent)

    def delete_samples(self, model_id: int, ids: Sequence[int]) -> None:
        """Delete rows of samples in every copy, and record there which bytes to overwrite."""
        with self._lock:
            for path in (*self._backups(), *self._being_sent):
                _change(path, lambda transaction: delete_samples(transaction, model_id, ids))
            for name in FILES_OF_DATABASE:
                for path in self._broken_dir.glob(f"*/{name}"):
                    remove_copy(path)

    def follow(self, readers: Readers, model_id: int) -> None:
        """Have the daemon's own backups name a model's stored samples alone, where they are now.

        An archive that is being sent has the packs as they were, and names the places in these.
        """
        with self._lock:  # no backup with newer rows can be made
            places = readers.read(places_of, model_id)
            for path in self._backups():
                _change(path, lambda transaction: follow_places(transaction, model_id, places))

    def forget_models(self, kept: Callable[[], Iterable[int]]) -> None:
        """Delete all models except those in `kept` from the daemon's own backups.

        kept: their ids, read when no backup with a newer one can be made.
        """
        with self._lock:
            marks = ", ".join(str(int(model_id)) for model_id in kept())
            sql = f"DELETE FROM models WHERE id NOT IN ({marks})"  # noqa: S608 - whole numbers
            for path in self._backups():
                _change(path, lambda transaction: transaction.execute(sql))

    def _backups(self) -> list[Path]:
        return sorted(self._backups_dir.glob("*.db"))


def require_room_for_copy(database: Path) -> None:
    """Raises StorageFull unless a copy leaves the same space free again: others write meanwhile."""
    with file_faults("cannot ask for the size of the database"):
        needed = 2 * database.stat().st_size
    free = free_bytes(database.parent)
    if free < needed:
        raise StorageFull(
            f"a copy of the database wants {file_size(needed)} free, the disk has "
            f"{file_size(free)}; make room"
        )


def copy_database(source: sqlite3.Connection, target: Path) -> None:
    """Copy the snapshot of `source`, which is in a read transaction, into a new file; durable.

    The copy is one file, without a log. Raises StorageFull, StorageBroken.
    """
    with file_faults("cannot copy the database"):
        target.touch(mode=0o600, exist_ok=False)
    try:
        with closing(sqlite3.connect(target, isolation_level=None)) as copy:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE").fetchall()
    except sqlite3.Error as error:
        remove_copy(target)
        raise translate(error) from error
    with file_faults("cannot copy the database"), target.open("r+b") as file:
        sync_file(file)


def check_copy(path: Path) -> None:
    """Raises DatabaseDamaged unless every table and index of a copy is intact."""
    # A connection that may write rolls back a change that a crash has interrupted.
    with translated(), closing(sqlite3.connect(path, isolation_level=None)) as connection:
        check_database(connection, "integrity_check(1)", name=path.name)


def _change(path: Path, change: Change) -> None:
    try:
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.row_factory = sqlite3.Row
            for pragma in ("foreign_keys = ON", "secure_delete = ON", "synchronous = EXTRA"):
                connection.execute(f"PRAGMA {pragma}").fetchall()
            connection.execute("BEGIN IMMEDIATE")
            change(Transaction(connection, utc_now()))
            connection.execute("COMMIT")
    except sqlite3.Error as error:
        _logger.error(
            "backup.removed",
            extra={"fields": {"file": path.name, "error": str(error), "why": "cannot be changed"}},
        )
        remove_copy(path)


def remove_copy(path: Path) -> None:
    """Remove a copy, and the files that a crash may have left next to it."""
    with file_faults(f"cannot remove {path.name}"):
        for suffix in ("", "-journal", "-wal", "-shm"):
            path.with_name(path.name + suffix).unlink(missing_ok=True)
