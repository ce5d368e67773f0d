"""Stored samples: their rows, and their bytes in the packs."""

from __future__ import annotations

import builtins
import hashlib
from pathlib import Path
from typing import Any

from storage.codec import load_time
from storage.connection import Readers, sqlite3
from storage.errors import NotFound, StorageBroken
from storage.packs import Packs
from storage.records import UNSET, Sample, SampleCounts, Split, Unset
from storage.staged_rows import Label
from storage.staging import Staging
from storage.writer import Transaction, Writer

_COUNTS = """
SELECT
  coalesce(sum(count) FILTER (WHERE split = 'train' AND class <> -1), 0) AS train,
  coalesce(sum(count) FILTER (WHERE split = 'validation' AND class <> -1), 0) AS validation,
  coalesce(sum(count) FILTER (WHERE class = -1), 0) AS unlabelled
FROM sample_counts WHERE model_id = ?
"""
_LABEL_COUNTS = """
SELECT split, class, count FROM sample_counts
WHERE model_id = ? AND class >= -1 AND count > 0 ORDER BY split, class
"""


class Samples:
    """Samples by model and id. Ids rise over all models and are never used again."""

    def __init__(self, writer: Writer, readers: Readers, *, packs: Packs, tmp_dir: Path) -> None:
        self._writer = writer
        self._readers = readers
        self._packs = packs
        self._tmp_dir = tmp_dir

    def stage(self, model_id: int, record_bytes: int) -> Staging:
        """Begin an upload; record_bytes: all inputs of one sample together."""
        return Staging(
            model_id,
            record_bytes,
            tmp_dir=self._tmp_dir,
            writer=self._writer,
            readers=self._readers,
            packs=self._packs,
        )

    def get(self, model_id: int, id: int) -> Sample:  # noqa: A002
        """Raises NotFound."""
        with self._readers.snapshot() as connection:
            return _sample(_row(connection, model_id, id))

    def content(self, model_id: int, id: int) -> bytes:  # noqa: A002
        """The sample's record. Raises NotFound, and StorageBroken if its bytes have changed."""
        with self._readers.snapshot() as connection:
            row = _row(connection, model_id, id)
        data = self._packs.read(
            model_id, pack=row["pack"], offset_bytes=row["offset"], length=row["length"]
        )
        if hashlib.sha256(data).digest() != row["sha256"]:
            self.get(model_id, id)  # deleted meanwhile: that is NotFound, and no damage
            raise StorageBroken(
                f"sample {id}: its bytes are not those that were stored; restore a backup"
            )
        return data

    def list(
        self,
        model_id: int,
        *,
        label: int | bytes | None = None,
        split: Split | None = None,
        unlabelled: bool | None = None,
        limit: int,
        after: int | None = None,
    ) -> builtins.list[Sample]:
        """Samples by id, those that meet every condition; after: the last page's last id."""
        where = ["model_id = ?", "id > ?"]
        parameters: builtins.list[Any] = [model_id, after or 0]
        if label is not None:
            kind = "integer" if isinstance(label, int) else "blob"
            where += [f"typeof(label) = '{kind}'", "label = ?"]
            parameters.append(label)
        if split is not None:
            where.append("split = ?")
            parameters.append(split.value)
        if unlabelled is not None:
            where.append("label IS NULL" if unlabelled else "label IS NOT NULL")
        with self._readers.snapshot() as connection:
            rows = connection.execute(
                f"SELECT * FROM samples WHERE {' AND '.join(where)} ORDER BY id LIMIT ?",  # noqa: S608
                (*parameters, limit),
            ).fetchall()
        return [_sample(row) for row in rows]

    def update(
        self,
        model_id: int,
        id: int,  # noqa: A002
        *,
        label: Label | Unset = UNSET,
        split: Split | Unset = UNSET,
    ) -> Sample:
        """Replace what is given; label None takes the label away. Raises NotFound."""

        def change(transaction: Transaction) -> Sample:
            row = _row(transaction.connection, model_id, id)
            transaction.execute(
                "UPDATE samples SET label = ?, split = ? WHERE id = ?",
                (
                    row["label"] if isinstance(label, Unset) else label,
                    row["split"] if isinstance(split, Unset) else split.value,
                    id,
                ),
            )
            return _sample(_row(transaction.connection, model_id, id))

        return self._writer.write(change)

    def delete(self, model_id: int, id: int) -> None:  # noqa: A002
        """Remove a sample and overwrite its bytes. Raises NotFound.

        The row goes first, and the range is remembered in the same transaction: after a crash in
        between, start-up overwrites it again, which does no harm. The other way round a crash
        would leave a row whose sample is zeros.
        """

        def forget(transaction: Transaction) -> sqlite3.Row:
            row = _row(transaction.connection, model_id, id)
            transaction.execute("DELETE FROM samples WHERE id = ?", (id,))
            erasure: sqlite3.Row = transaction.execute(
                "INSERT INTO erasures (model_id, pack, offset, length) VALUES (?, ?, ?, ?) "
                "RETURNING *",
                (model_id, row["pack"], row["offset"], row["length"]),
            ).fetchone()
            return erasure

        with self._packs.lock(model_id):
            erase(self._writer, self._packs, self._writer.write(forget))

    def counts(self, model_id: int) -> SampleCounts:
        """Kept by triggers, so this takes no longer for a million samples."""
        with self._readers.snapshot() as connection:
            row = connection.execute(_COUNTS, (model_id,)).fetchone()
        return SampleCounts(**dict(row))

    def label_counts(self, model_id: int) -> builtins.list[tuple[Split, int | None, int]]:
        """(split, class index, samples); class None: those without a label.

        Labels that are not class indices are in no class, and are not listed.
        """
        with self._readers.snapshot() as connection:
            rows = connection.execute(_LABEL_COUNTS, (model_id,)).fetchall()
        return [
            (Split(row["split"]), None if row["class"] < 0 else row["class"], row["count"])
            for row in rows
        ]


def erase(writer: Writer, packs: Packs, erasure: sqlite3.Row) -> None:
    """Carry out a remembered erasure, and forget it."""
    packs.erase(
        erasure["model_id"],
        pack=erasure["pack"],
        offset_bytes=erasure["offset"],
        length=erasure["length"],
    )
    writer.write(
        lambda transaction: transaction.execute(
            "DELETE FROM erasures WHERE id = ?", (erasure["id"],)
        )
    )


def _row(connection: sqlite3.Connection, model_id: int, sample_id: int) -> sqlite3.Row:
    row: sqlite3.Row | None = connection.execute(
        "SELECT * FROM samples WHERE id = ? AND model_id = ?", (sample_id, model_id)
    ).fetchone()
    if row is None:
        raise NotFound(f"this model has no sample {sample_id}")
    return row


def _sample(row: sqlite3.Row) -> Sample:
    return Sample(
        id=row["id"],
        model_id=row["model_id"],
        key=row["key"],
        split=Split(row["split"]),
        label=row["label"],
        sha256=row["sha256"].hex(),
        size_bytes=row["length"],
        created_at=load_time(row["created_at"]),
    )
