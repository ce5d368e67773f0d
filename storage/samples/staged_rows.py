"""What is known of staged samples besides their bytes."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from storage.database.connection import sqlite3, translate
from storage.disk.durable import file_faults

Label = int | bytes | None
StagedRow = tuple[int, Label, str | None, str | None, bytes, int, int, bool]
_KEYS_PER_QUERY = 500
_SCHEMA = (
    "CREATE TABLE staged (n INTEGER PRIMARY KEY, label ANY, key TEXT, split TEXT, "
    "sha256 BLOB NOT NULL, start INTEGER NOT NULL, length INTEGER NOT NULL, "
    "pinned INTEGER NOT NULL) STRICT",
    "CREATE UNIQUE INDEX staged_by_key ON staged (key) WHERE key IS NOT NULL",
)
_INSERT = """
INSERT INTO staged (n, label, key, split, sha256, start, length, pinned)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (key) WHERE key IS NOT NULL DO NOTHING
"""
_NEXT_KEYS = "SELECT n, key FROM staged WHERE key IS NOT NULL AND n > ? ORDER BY n LIMIT ?"


class StagedRows:
    """Rows by ordinal, of which the first with a key stays.

    They live in a private SQLite database whose one transaction is never committed: a small
    upload stays in its page cache, a large one spills to a file in `folder`, and memory is bounded.
    """

    def __init__(self, folder: Path) -> None:
        with file_faults("cannot stage samples"):
            descriptor, name = tempfile.mkstemp(prefix="staged-", dir=folder)
            os.close(descriptor)
        self._path = Path(name)
        self._keyed = False
        try:
            self._connection = _open(self._path)
        except sqlite3.Error as error:
            raise translate(error) from error

    def add(self, rows: Iterable[StagedRow], *, keyed: bool) -> None:
        """rows: ordinal, label, key, split, digest, offset and length of its bytes, pinned.

        Raises StorageFull.
        """
        try:
            self._connection.executemany(_INSERT, rows)
        except sqlite3.Error as error:
            raise translate(error) from error
        self._keyed = self._keyed or keyed

    def drop_known_keys(self, database: sqlite3.Connection, model_id: int) -> None:
        """Drop the rows whose key the model has already."""
        if not self._keyed:
            return
        last = -1
        while rows := self._connection.execute(_NEXT_KEYS, (last, _KEYS_PER_QUERY)).fetchall():
            last = rows[-1][0]
            keys = [key for _, key in rows]
            marks = ", ".join("?" * len(keys))
            known = database.execute(
                f"SELECT key FROM samples WHERE model_id = ? AND key IN ({marks})",  # noqa: S608
                (model_id, *keys),
            ).fetchall()
            self._connection.executemany("DELETE FROM staged WHERE key = ?", map(tuple, known))

    def count(self) -> int:
        return int(self._connection.execute("SELECT count(*) FROM staged").fetchone()[0])

    def ranges(self) -> Iterator[tuple[int, int]]:
        """(offset, length) of the bytes of the rows that are left, neighbours together."""
        start = stop = 0
        rows = self._connection.execute("SELECT start, length FROM staged ORDER BY n")
        for offset_bytes, length in rows:
            if offset_bytes != stop:
                if stop > start:
                    yield start, stop - start
                start = offset_bytes
            stop = offset_bytes + length
        yield start, stop - start

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """(label, key, split, digest, length, pinned) by ordinal."""
        return self._connection.execute(
            "SELECT label, key, split, sha256, length, pinned FROM staged ORDER BY n"
        )

    def close(self) -> None:
        self._connection.close()
        self._path.unlink(missing_ok=True)


def _open(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA synchronous = OFF")
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA cache_size = -1024")
    connection.execute("BEGIN")
    for statement in _SCHEMA:
        connection.execute(statement)
    return connection
