"""Deleting samples: rows first, then every byte that was theirs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from storage.blobs.compaction import reclaim
from storage.blobs.packs import Packs
from storage.blobs.row_cache import erase_from_caches
from storage.database.connection import Readers, sqlite3
from storage.database.writer import Transaction, Writer
from storage.errors import StorageFull

if TYPE_CHECKING:
    from storage.backup.copies import Copies

_IDS_PER_STATEMENT = 500
_ERASURES_AT_ONCE = 20_000
_REMEMBER = """
INSERT INTO erasures (model_id, pack, offset, length, sample_id)
SELECT model_id, pack, offset, length, id FROM samples WHERE model_id = ? AND id IN ({})
"""
_WEIGH = """
UPDATE packs SET erased_bytes = erased_bytes + gone.bytes
FROM (
  SELECT pack, sum(length) AS bytes FROM samples WHERE model_id = ? AND id IN ({}) GROUP BY pack
) AS gone
WHERE packs.model_id = ? AND packs.pack = gone.pack
"""
_DELETE = "DELETE FROM samples WHERE model_id = ? AND id IN ({})"
_PENDING = "SELECT * FROM erasures WHERE model_id = ? ORDER BY id LIMIT ?"


def forget_samples(transaction: Transaction, model_id: int, ids: Iterable[int]) -> int:
    """Delete rows, and remember which bytes are to be overwritten; how many samples there were.

    The range is remembered in the same transaction: after a crash in between, start-up overwrites
    it again, which does no harm. The other way round a crash would leave a row of zeros.
    """
    gone = 0
    for some in _chunks(ids):
        marks = ", ".join("?" * len(some))
        transaction.execute(_REMEMBER.format(marks), (model_id, *some))
        transaction.execute(_WEIGH.format(marks), (model_id, *some, model_id))
        gone += transaction.execute(_DELETE.format(marks), (model_id, *some)).rowcount
    return gone


class Eraser:
    """Removes what deleted samples left: in copies of the database, packs, caches and the log."""

    def __init__(self, writer: Writer, readers: Readers, packs: Packs, copies: Copies) -> None:
        self._writer = writer
        self._readers = readers
        self._packs = packs
        self._copies = copies

    def erase(self, model_id: int) -> None:
        """Carry out the model's remembered erasures; then give the room in its packs back.

        One that a reader of the database hinders stays remembered, and is done again later.
        """
        while erasures := self._overwrite(model_id):
            ids = [row["sample_id"] for row in erasures]
            erase_from_caches(self._packs.cache_dir / str(model_id), ids)
            if not self._writer.truncate_wal():
                return
            self._forget(model_id, erasures[-1]["id"])
        # Without room for a copy the packs stay as they are until the next deletion.
        with suppress(StorageFull):
            reclaim(self._writer, self._readers, self._packs, self._copies, model_id=model_id)

    def erase_at_rest(self, model_id: int) -> None:
        """As `erase`, unless a job trains on the model: it would go on with zeros."""
        with self._readers.snapshot() as connection:
            busy = connection.execute(
                "SELECT 1 FROM jobs WHERE model_id = ? AND state = 'running'", (model_id,)
            ).fetchone()
        if not busy:
            self.erase(model_id)

    def pending_models(self) -> list[int]:
        """Models that have erasures to carry out."""
        with self._readers.snapshot() as connection:
            rows = connection.execute("SELECT DISTINCT model_id FROM erasures").fetchall()
        return [row["model_id"] for row in rows]

    def _overwrite(self, model_id: int) -> list[sqlite3.Row]:
        """Zero what is remembered, up to a number of samples, and return it.

        Read and zeroed under one lock: what is remembered keeps `reclaim` from moving packs. Copies
        of the database come first: none may name a sample whose bytes are zeros.
        """
        with self._packs.lock(model_id):
            with self._readers.snapshot() as connection:
                rows = connection.execute(_PENDING, (model_id, _ERASURES_AT_ONCE)).fetchall()
            if rows:
                self._copies.forget_samples(model_id, [row["sample_id"] for row in rows])
            ranges: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
            for row in rows:
                ranges[row["pack"]].append((row["offset"], row["length"]))
            for pack, listed in ranges.items():
                self._packs.erase(model_id, pack, sorted(listed))
        return rows

    def _forget(self, model_id: int, last: int) -> None:
        self._writer.write(
            lambda transaction: transaction.execute(
                "DELETE FROM erasures WHERE model_id = ? AND id <= ?", (model_id, last)
            )
        )


def _chunks(ids: Iterable[int]) -> Iterator[Sequence[int]]:
    rest = iter(ids)
    while some := list(islice(rest, _IDS_PER_STATEMENT)):
        yield some
