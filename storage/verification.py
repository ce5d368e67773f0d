"""Reads all stored data, compares them with their digests, and deletes what stays damaged."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime
from functools import partial

from msgspec.structs import replace

from storage.backup.reconciling import Lost, reconcile
from storage.blobs.files import ON_DISK, FileStore
from storage.blobs.packs import Packs
from storage.database.codec import load_time
from storage.database.connection import Readers, sqlite3
from storage.database.transaction import Transaction
from storage.database.writer import Writer
from storage.erasure.leftovers import Leftovers
from storage.errors import Damaged, NotFound
from storage.integrity import Integrity
from storage.records.samples import CHANGED, DAMAGED
from storage.tables.model_rows import model_name

_SAMPLES_AT_ONCE = 500
_SIZE = """
SELECT coalesce(sum(size_bytes), 0) + (SELECT coalesce(sum(size_bytes), 0) FROM packs) AS size
FROM files WHERE sha256 NOT IN (SELECT sha256 FROM assembled_files)
"""
_LAST = "SELECT created_at FROM events WHERE type = 'storage.verified' ORDER BY id DESC LIMIT 1"
_RECORDS = """
SELECT id, pack, offset, length, sha256, quarantine FROM samples
WHERE model_id = ? AND id > ? ORDER BY id LIMIT ?
"""
# A sample that was deleted or moved since it was read is not changed.
_MARK = "UPDATE samples SET quarantine = ? WHERE id = ? AND pack = ? AND offset = ?"
_GIVE_UP_SAMPLES = f"""
DELETE FROM samples WHERE quarantine IS NOT NULL AND quarantine LIKE '{DAMAGED}%'
"""  # noqa: S608 - our own


class Verification:
    """Verifies all files and samples."""

    def __init__(
        self,
        writer: Writer,
        readers: Readers,
        *,
        files: FileStore,
        packs: Packs,
        integrity: Integrity,
        leftovers: Leftovers,
    ) -> None:
        self._writer = writer
        self._readers = readers
        self._files = files
        self._packs = packs
        self._integrity = integrity
        self._leftovers = leftovers

    def size_bytes(self) -> int:
        """The bytes that `read` would read now."""
        return int(self._readers.one(_SIZE)["size"])

    def last(self) -> datetime | None:
        """When all of it was last read; None if never, or if that event is no longer kept."""
        row = self._readers.one(_LAST)
        return None if row is None else load_time(row["created_at"])

    def read(self) -> Iterator[int]:
        """Take all `steps`, then record them; yields the bytes of each."""
        total = 0
        for size_bytes in self.steps():
            total += size_bytes
            yield size_bytes
        self.record(total)

    def record(self, size_bytes: int) -> None:
        """Set `last`: all steps were taken, and read this much."""
        told = {"size_bytes": size_bytes}
        self._writer.write(lambda transaction: transaction.event("storage.verified", None, told))

    def give_up_damaged(self) -> Lost:
        """Delete the damaged samples, and rows whose files are damaged; returns how many.

        Version 1 and a model's artifacts stay: without them there is no model.
        """
        damaged = self._integrity.known().files

        def delete(transaction: Transaction) -> Lost:
            samples = transaction.execute(_GIVE_UP_SAMPLES).rowcount
            lost = reconcile(transaction, files=self._files, packs=self._packs, damaged=damaged)
            return replace(lost, samples=lost.samples + samples)

        return self._writer.write(delete)

    def steps(self) -> Iterator[int]:
        """Read everything in small steps, and record damage; yields the bytes of each step.

        Data that are intact again are no longer recorded as damaged. Bytes that deleted samples
        have left are overwritten.
        """
        files = self._readers.all(ON_DISK)
        for row in files:
            self._check_file(row["sha256"])
            yield row["size_bytes"]
        models = self._readers.all("SELECT id FROM models ORDER BY id")
        for row in models:
            yield from self._samples(row["id"])
            yield from self._leftovers.remove(row["id"])

    def _check_file(self, sha256: str) -> None:
        try:
            self._integrity.file_again(sha256)
        except (Damaged, NotFound):
            return
        forget = "DELETE FROM damaged_files WHERE sha256 = ?"
        self._writer.write(lambda transaction: transaction.execute(forget, (sha256,)))

    def _samples(self, model_id: int) -> Iterator[int]:
        last = 0
        while rows := self._readers.all(_RECORDS, (model_id, last, _SAMPLES_AT_ONCE)):
            last = rows[-1]["id"]
            if marks := list(self._compare(model_id, rows)):
                self._writer.write(partial(_mark, model_id=model_id, marks=marks))
            yield sum(row["length"] for row in rows)

    def _compare(
        self, model_id: int, rows: Iterable[sqlite3.Row]
    ) -> Iterator[tuple[str | None, sqlite3.Row]]:
        """(reason or None, row) of each sample whose quarantine must change."""
        for row in rows:
            is_marked = (row["quarantine"] or "").startswith(DAMAGED)
            _, record = self._packs.record(model_id, row)
            if is_marked != (record is not None):
                yield record, row


def _mark(
    transaction: Transaction, *, model_id: int, marks: Iterable[tuple[str | None, sqlite3.Row]]
) -> None:
    """Quarantine damaged samples, and release those that are intact again."""
    damaged = [
        row["id"]
        for reason, row in marks
        if transaction.execute(_MARK, (reason, row["id"], row["pack"], row["offset"])).rowcount
        and reason is not None
    ]
    if damaged:
        told = {"samples": len(damaged), "first_id": damaged[0], "reason": CHANGED}
        transaction.event("storage.damaged", model_name(transaction, model_id), told)
