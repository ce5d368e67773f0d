"""Staging: uploads are collected in constant memory, then stored completely or not at all."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import accumulate, chain, repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from storage.arrays import NDArray
from storage.blobs.packs import Packs, Placement
from storage.database.connection import Readers, sqlite3
from storage.database.transaction import Transaction
from storage.database.writer import Writer
from storage.disk.durable import file_faults
from storage.disk.spool import Spool
from storage.errors import HoneError, StorageBroken
from storage.records.samples import Label, Split, StageResult, require_columns
from storage.records.signatures import TargetSpec
from storage.samples.quota import NOBODY, enforce_quota, find_quota
from storage.samples.rows import insert_samples
from storage.samples.sets import take_into_base_set
from storage.samples.staged_rows import FEW_ROWS, SmallTables, StagedRows
from storage.samples.twins import apply_merges, drop_repeated, drop_stored
from storage.tables.classes import require_same_indices
from storage.tables.model_rows import model_name, no_model

if TYPE_CHECKING:
    import numpy as np

Records: TypeAlias = "bytes | bytearray | memoryview | NDArray[np.generic]"

_TOLD = ("accepted", "duplicates", "first_id", "last_id", "evicted")


class Staging:
    """Samples of one upload: `add` them, then `commit`; leaving the `with` discards the rest.

    Use from one thread at a time.
    """

    def __init__(
        self,
        model_id: int,
        record_bytes: int | None,
        *,
        tmp_dir: Path,
        small: SmallTables,
        writer: Writer,
        readers: Readers,
        packs: Packs,
        keep_duplicates: bool,
        owner: str | None,
        target: TargetSpec | None,
        base_set: bool,
    ) -> None:
        self._model_id = model_id
        self._record_bytes = record_bytes
        self._writer = writer
        self._readers = readers
        self._packs = packs
        self._keep_duplicates = keep_duplicates
        self._owner = owner
        self._target = target
        self._base_set = base_set
        self._added = 0
        self._spool = Spool(tmp_dir)
        self._rows = StagedRows(tmp_dir, small)

    def __enter__(self) -> Staging:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def add(
        self,
        records: Records,
        labels: Sequence[Label],
        *,
        lengths: Sequence[int] | None = None,
        **columns: Any,
    ) -> None:
        """Stage samples.

        records: concatenated, contiguous. lengths: of each record in bytes, if they are not all
        record_bytes long. columns: of SAMPLE_COLUMNS, one value per sample; the split may be one
        for all, and None derives it from the inputs.
        Raises ValueError if the lengths do not match, StorageFull, Busy once the store is closed.
        """
        self._writer.require_running()
        count = len(labels)
        if count == 0:
            return
        if self._base_set:
            columns["split"] = Split.BASE
        data = memoryview(records).cast("B")  # type: ignore[arg-type]  # numpy is a Buffer
        sizes = [self._record_bytes or 0] * count if lengths is None else lengths
        _check_lengths(count, data, lengths=sizes, columns=columns)
        starts = list(accumulate(chain([0], sizes)))[:-1]
        at = self._spool.size_bytes
        filled = {name: _values(column) for name, column in columns.items() if column is not None}
        digests = [
            hashlib.sha256(data[s : s + n]).digest() for s, n in zip(starts, sizes, strict=True)
        ]
        rows = zip(
            range(self._added, self._added + count),
            digests,
            (at + start for start in starts),
            sizes,
            labels,
            *filled.values(),
            strict=False,  # `repeat` has no end
        )
        keyed = any(columns.get("key") or ())
        label_bytes = sum(len(label) for label in labels if isinstance(label, bytes))
        self._rows.add(rows, digests, columns=filled, keyed=keyed, label_bytes=label_bytes)
        with file_faults("cannot stage samples"):
            self._spool.write(data)
        self._added += count

    def commit(self) -> StageResult:
        """Store the added samples; they are durable when this returns.

        A sample is a duplicate, counted but not stored, if its key exists already in the model or
        earlier in this upload. So is one with the inputs of another, unless duplicates are kept or
        both have labels that differ. Damaged samples do not count, and lose their keys. Stored
        samples that equal duplicates in a base set's upload join the base set. If the model exceeds
        its quota, samples of the owner that holds most are evicted in the same transaction.
        Samples of an owner merge only with the owner's.

        Raises AlreadyExists if a sample of another owner has the key, NotFound if the model was
        deleted, StateConflict if its classes have changed since the labels were checked, Busy,
        StorageFull, StorageBroken; then nothing is stored.
        """
        if self._spool.path is None and self._added <= FEW_ROWS:
            # In the writing thread, in a commit that uploads share.
            with self._packs.share(self._model_id):
                return self._writer.write(self._store, shares=True)
        with self._packs.lock(self._model_id):
            with self._readers.snapshot() as connection:
                accepted = self._drop_duplicates(connection)
            if accepted == 0:
                return self._writer.write(self._merge)
            ranges = self._ranges(accepted)
            placement = self._packs.place(self._model_id, self._spool, ranges=ranges)
            insert = partial(self._insert, placement=placement, accepted=accepted)
            try:
                return self._writer.write(insert, may_use_ballast=False)
            except StorageBroken:
                # Only a restart can tell whether the rows were committed; the bytes stay.
                raise
            except HoneError:
                self._packs.undo(self._model_id, placement)
                raise

    def discard(self) -> None:
        """Drop the staged samples."""
        self._rows.close()
        self._spool.discard()

    def _store(self, transaction: Transaction) -> StageResult:
        """Store bytes and rows of a small upload, in a commit that uploads share."""
        accepted = self._drop_duplicates(transaction.connection)
        if accepted == 0:
            return self._merge(transaction)
        ranges = self._ranges(accepted)
        placement = self._packs.append(transaction, self._model_id, self._spool, ranges=ranges)
        return self._insert(transaction, placement, accepted)

    def _ranges(self, accepted: int) -> Iterator[tuple[int, int]] | None:
        """Those of the spool that are kept, None for all of it."""
        return None if accepted == self._added else self._rows.ranges()

    def _drop_duplicates(self, connection: sqlite3.Connection) -> int:
        """Drop the staged rows that are duplicates; returns how many rows remain."""
        exists = "SELECT 1 FROM models WHERE id = ?"
        if connection.execute(exists, (self._model_id,)).fetchone() is None:
            raise no_model(self._model_id)
        self._rows.drop_known_keys(connection, self._model_id, owner=self._owner)
        if not self._keep_duplicates:
            drop_stored(self._rows, connection, self._model_id, owner=self._owner)
        if not self._keep_duplicates and self._rows.count() > 1:
            drop_repeated(self._rows)
        return self._rows.count()

    def _merge(self, transaction: Transaction) -> StageResult:
        """As `_insert`, if every sample is a duplicate."""
        self._begin(transaction)
        twins = self._apply_merges(transaction, first_id=0)
        return StageResult(accepted=0, duplicates=self._added, twins=twins)

    def _begin(self, transaction: Transaction) -> None:
        """Check the classes, and take the keys from damaged samples, so that new ones can have
        them.
        """
        if self._target is not None:
            require_same_indices(transaction, self._model_id, self._target)
        if not self._rows.keys_of_damaged:
            return
        keys = [(self._model_id, key) for key in self._rows.keys_of_damaged]
        transaction.executemany(
            "UPDATE samples SET key = NULL WHERE model_id = ? AND key = ?", keys
        )
        transaction.executemany("DELETE FROM sample_keys WHERE model_id = ? AND key = ?", keys)

    def _apply_merges(self, transaction: Transaction, first_id: int) -> dict[int, int]:
        told = apply_merges(transaction, self._rows, first_id=first_id)
        if self._base_set:
            equal = [sample_id for _, sample_id, _ in self._rows.resolved(first_id)]
            take_into_base_set(transaction, self._model_id, equal)
        return told

    def _insert(self, transaction: Transaction, placement: Placement, accepted: int) -> StageResult:
        self._begin(transaction)
        duplicates = self._added - accepted
        quota = find_quota(transaction, self._model_id)
        first_id = insert_samples(
            transaction, self._model_id, self._rows, placement, owner=self._owner, quota=quota
        )
        twins = self._apply_merges(transaction, first_id) if duplicates else {}
        result = StageResult(
            accepted=accepted,
            duplicates=duplicates,
            first_id=first_id,
            last_id=first_id + accepted - 1,
            evicted=enforce_quota(
                transaction, self._model_id, quota, added_by=self._owner or NOBODY
            ),
            conflicts=self._rows.conflicts(),
            twins=twins,
        )
        name = model_name(transaction, self._model_id)
        told = {field: getattr(result, field) for field in _TOLD}
        transaction.event("samples.added", name, told)
        return result


def _check_lengths(
    count: int, data: memoryview, *, lengths: Sequence[int], columns: Mapping[str, Any]
) -> None:
    if data.nbytes != sum(lengths):
        raise ValueError(
            f"{count} labels came with {data.nbytes} bytes; their records make {sum(lengths)}"
        )
    require_columns(columns)
    for name, column in {"lengths": lengths, **columns}.items():
        if isinstance(column, Sequence) and not isinstance(column, str) and len(column) != count:
            raise ValueError(f"{count} labels came with {len(column)} of {name}")


def _values(column: object) -> Iterable[object]:
    """A column's values; a single one is repeated."""
    return repeat(column) if isinstance(column, str) else cast("Sequence[object]", column)
