"""Metadata of staged samples."""

from __future__ import annotations

import os
import queue
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from storage.database.connection import insert_rows, sqlite3, translated
from storage.disk.durable import file_faults
from storage.errors import AlreadyExists
from storage.records.samples import DAMAGED, SAMPLE_COLUMNS

FEW_ROWS = 256
"""At most this many rows are held in memory."""
_FEW_BYTES = 1 << 20
"""At most this many bytes of their labels are."""
_ROWS_AT_ONCE = 2000
BEGINNING_BYTES = 8
"""The bytes of a digest by which equal inputs are looked up; few others share them."""
_BEGINNINGS_BYTES = 16_384 * BEGINNING_BYTES
_KEYS_AT_ONCE = 64
_TABLES = (
    "CREATE TABLE staged (n INTEGER PRIMARY KEY, sha256 BLOB NOT NULL, start INTEGER NOT NULL, "
    "length INTEGER NOT NULL, label ANY, "
    + "".join(
        f"{name} ANY DEFAULT {'NULL' if default is None else default}, "
        for name, default in SAMPLE_COLUMNS.items()
    )
    + "conflicts INTEGER NOT NULL DEFAULT 0) STRICT",
    "CREATE UNIQUE INDEX staged_by_key ON staged (key) WHERE key IS NOT NULL",
    # id: the stored sample that a dropped row equals; of: the staged row that it equals.
    "CREATE TABLE dropped (n INTEGER PRIMARY KEY, id INTEGER, of INTEGER, key TEXT) STRICT",
    "CREATE TABLE labelled (id INTEGER PRIMARY KEY, label ANY) STRICT",
)
_CLEAR = ("DELETE FROM staged", "DELETE FROM dropped", "DELETE FROM labelled")
_GIVEN = ("n", "sha256", "start", "length", "label")
_FIRST_OF_A_KEY = """
ON CONFLICT (key) WHERE key IS NOT NULL DO UPDATE SET label = excluded.label
WHERE label IS NULL AND sha256 = excluded.sha256
"""
_KNOWN_KEYS = f"""
SELECT taken.key, samples.id, coalesce(quarantine, '') LIKE '{DAMAGED}%' AS is_damaged, owner,
  iif(label IS NULL, sha256, NULL) AS unlabelled_digest
FROM (
  SELECT key, id FROM samples WHERE model_id = ? AND key IN ({{marks}})
  UNION ALL SELECT key, sample_id FROM sample_keys WHERE model_id = ? AND key IN ({{marks}})
) AS taken JOIN samples USING (id)
"""  # noqa: S608 - our own
_BATCH = "SELECT n, sha256, label, key, split FROM staged WHERE n > ? ORDER BY n LIMIT ?"
_KEYED = "SELECT n, key, sha256 FROM staged WHERE key IS NOT NULL AND n > ? ORDER BY n LIMIT ?"
# A sample may have several keys; the first row with a label counts.
_LABEL_STORED = """
INSERT OR IGNORE INTO labelled SELECT ?, label FROM staged WHERE n = ? AND label IS NOT NULL
"""
_REPEATED = """
SELECT n, sha256, label, key, split FROM staged
WHERE sha256 IN (SELECT sha256 FROM staged GROUP BY sha256 HAVING count(*) > 1) ORDER BY sha256, n
"""
_RESOLVED = """
WITH ranked AS (SELECT n, row_number() OVER (ORDER BY n) - 1 AS rank FROM staged)
SELECT dropped.n, coalesce(id, :first_id + rank), dropped.key
FROM dropped LEFT JOIN ranked ON ranked.n = dropped.of ORDER BY dropped.n
"""


class SmallTables:
    """Empty tables in memory that small uploads use in turn.

    To make them, and to prepare their statements, takes 25 times as long as to use them.
    """

    def __init__(self) -> None:
        self._idle: queue.LifoQueue[sqlite3.Connection] = queue.LifoQueue()

    def take(self) -> sqlite3.Connection:
        """Tables that nobody uses."""
        with suppress(queue.Empty):
            return self._idle.get_nowait()
        return _open(":memory:")

    def give_back(self, connection: sqlite3.Connection) -> None:
        """Empty the tables, for the next upload."""
        for statement in _CLEAR:
            connection.execute(statement)
        self._idle.put(connection)

    def free(self) -> None:
        """Free the memory of those that nobody uses."""
        with suppress(queue.Empty):
            while True:
                self._idle.get_nowait().close()


class StagedRows:
    """Rows by ordinal; of rows with the same key the first stays, with the label of another if it
    has none and the inputs are equal.

    keys_of_damaged: keys of damaged stored samples, to be taken from them.

    A few rows are in tables in memory; more are moved to a private SQLite database in `folder`,
    whose one transaction is never committed, so memory is bounded.
    """

    def __init__(self, folder: Path, small: SmallTables) -> None:
        self._folder = folder
        self._small = small
        self._path: Path | None = None
        self._added = self._label_bytes = 0
        self._beginnings = bytearray()
        self._keyed = self._conflicting = self._closed = False
        self.keys_of_damaged: list[str] = []
        with translated():
            self._connection = small.take()

    def add(
        self,
        rows: Iterable[tuple[Any, ...]],
        digests: Sequence[bytes],
        *,
        columns: Iterable[str],
        keyed: bool,
        label_bytes: int,
    ) -> None:
        """rows: ordinal, digest, offset and length of the bytes, label; then columns of the table.

        Raises StorageFull.
        """
        self._label_bytes += label_bytes
        self._added += len(digests)
        are_few = self._added <= FEW_ROWS and self._label_bytes <= _FEW_BYTES
        if self._path is None and not are_few:
            self._move_to_file()
        self._keyed = self._keyed or keyed
        on_conflict = _FIRST_OF_A_KEY if self._keyed else ""
        with translated():
            insert_rows(
                self._connection, "staged", (*_GIVEN, *columns), rows, on_conflict=on_conflict
            )
        if len(self._beginnings) <= _BEGINNINGS_BYTES:
            self._beginnings += b"".join(digest[:BEGINNING_BYTES] for digest in digests)

    def beginnings(self) -> set[bytes] | None:
        """The prefixes of the digests; None if two rows share one, or if there are many rows."""
        packed, size = bytes(self._beginnings), BEGINNING_BYTES
        if len(packed) > _BEGINNINGS_BYTES:
            return None
        beginnings = {packed[at : at + size] for at in range(0, len(packed), size)}
        return beginnings if len(beginnings) * size == len(packed) else None

    def drop_known_keys(
        self, database: sqlite3.Connection, model_id: int, *, owner: str | None
    ) -> None:
        """Drop the rows whose key the model has already, unless that sample is damaged.

        A sample without a label gets that of a row with the same inputs.
        Raises AlreadyExists if the sample has another owner: if the row were dropped, the app
        would lose its sample, and its key would name one that it may not change.
        """
        if not self._keyed:
            return
        for rows in self._pages(_KEYED, _KEYS_AT_ONCE):
            staged = {key: (n, digest) for n, key, digest in rows}
            keys = [*staged]
            if len(keys) > 1:  # pads, so that only two statements are ever prepared and cached
                keys += keys[-1:] * (_KEYS_AT_ONCE - len(keys))
            query = _KNOWN_KEYS.format(marks=", ".join("?" * len(keys)))
            known = database.execute(query, (model_id, *keys, model_id, *keys)).fetchall()
            for key, sample_id, is_damaged, owned_by, unlabelled_digest in known:
                if owner not in (None, owned_by):
                    raise AlreadyExists(
                        f"another app's sample has the key {key!r}; nothing was stored: "
                        "choose keys that no other app uses"
                    )
                if is_damaged:
                    self.keys_of_damaged.append(key)
                    continue
                n, digest = staged[key]
                if digest == unlabelled_digest:
                    self._execute(_LABEL_STORED, (sample_id, n))
                self.drop(n, stored=sample_id)

    def batches(self) -> Iterator[list[Any]]:
        """(ordinal, digest, label, key, split) by ordinal, a few hundred at a time."""
        return self._pages(_BATCH, _ROWS_AT_ONCE)

    def repeated(self) -> Iterator[Any]:
        """As `batches`, but row by row, and only those whose digest others share, by digest."""
        with translated():
            yield from self._connection.execute(_REPEATED)

    def drop(
        self, n: int, *, stored: int | None = None, of: int | None = None, key: str | None = None
    ) -> None:
        """Drop a row that equals a stored sample or another row, and keep its key for that one."""
        self._execute("INSERT INTO dropped VALUES (?, ?, ?, ?)", (n, stored, of, key))
        self._execute("DELETE FROM staged WHERE n = ?", (n,))

    def conflict(self, n: int, *, split: str | None) -> None:
        """Mark a row whose label contradicts its twins'; without a split it gets theirs."""
        self._conflicting = True
        self._execute(
            "UPDATE staged SET conflicts = 1, split = coalesce(split, ?) WHERE n = ?", (split, n)
        )

    def set_label(self, n: int, label: object) -> None:
        """Give a row the label of one that equals it."""
        self._execute("UPDATE staged SET label = ? WHERE n = ?", (label, n))

    def label_stored(self, sample_id: int, label: object) -> None:
        """Record the label for a stored sample that has none."""
        self._execute("INSERT INTO labelled VALUES (?, ?)", (sample_id, label))

    def stored_labels(self) -> Iterator[tuple[int, Any]]:
        """(sample id, label) of the stored samples that get a label."""
        return self._connection.execute("SELECT id, label FROM labelled")

    def label_for(self, sample_id: int) -> Any:
        """The label that a stored sample gets, if any."""
        query = "SELECT label FROM labelled WHERE id = ?"
        row = self._connection.execute(query, (sample_id,)).fetchone()
        return None if row is None else row[0]

    def resolved(self, first_id: int) -> Iterator[tuple[int, int, str | None]]:
        """(ordinal, sample id, key) of the dropped rows, by ordinal.

        first_id: of the remaining rows, whose ids are consecutive.
        """
        return self._connection.execute(_RESOLVED, {"first_id": first_id})

    def count(self) -> int:
        """The number of remaining rows."""
        return int(self._connection.execute("SELECT count(*) FROM staged").fetchone()[0])

    def conflicts(self) -> int:
        """How many of those contradict a twin's label."""
        if not self._conflicting:
            return 0
        query = "SELECT count(*) FROM staged WHERE conflicts"
        return int(self._connection.execute(query).fetchone()[0])

    def ranges(self) -> Iterator[tuple[int, int]]:
        """(offset, length) of the remaining rows' bytes, with adjacent ones merged."""
        start = stop = 0
        rows = self._connection.execute("SELECT start, length FROM staged ORDER BY n")
        for offset_bytes, length in rows:
            if offset_bytes != stop:
                if stop > start:
                    yield start, stop - start
                start = offset_bytes
            stop = offset_bytes + length
        yield start, stop - start

    def select(self, sql: str, parameters: Sequence[object]) -> Iterator[tuple[Any, ...]]:
        """Run a query on the table `staged`."""
        return self._connection.execute(sql, parameters)

    def close(self) -> None:
        """Drop the rows. Safe to call twice."""
        if self._closed:
            return
        self._closed = True
        if self._path is None:
            self._small.give_back(self._connection)
        else:
            self._connection.close()
            self._path.unlink(missing_ok=True)

    def _move_to_file(self) -> None:
        with file_faults("cannot stage samples"):
            descriptor, name = tempfile.mkstemp(prefix="staged-", dir=self._folder)
            os.close(descriptor)
        self._path = Path(name)
        small = self._connection
        with translated():
            self._connection = _open(self._path)
            rows = small.execute("SELECT * FROM staged")
            marks = ", ".join("?" * len(rows.description))
            self._connection.executemany(f"INSERT INTO staged VALUES ({marks})", rows)  # noqa: S608
        self._small.give_back(small)

    def _execute(self, sql: str, parameters: tuple[object, ...] = ()) -> None:
        with translated():
            self._connection.execute(sql, parameters)

    def _pages(self, query: str, size: int) -> Iterator[list[Any]]:
        last = -1
        rows: list[Any] = []
        while last < 0 or len(rows) == size:
            rows = self._connection.execute(query, (last, size)).fetchall()
            yield rows
            last = rows[-1][0] if rows else 0


def _open(path: Path | str) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = OFF")
    connection.execute("PRAGMA cache_size = -1024")
    if path != ":memory:":
        connection.execute("BEGIN")
    for statement in _TABLES:
        connection.execute(statement)
    return connection
