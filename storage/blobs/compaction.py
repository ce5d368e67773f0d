"""Frees the disk space of deleted samples: packs that are mostly zeros are rewritten.

While samples move, a few at a time, both packs are marked: each holds bytes that no row names.
Meanwhile no job of the model begins. What a failure leaves there is overwritten by the next
erasure, or at the next start.
"""

from __future__ import annotations

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import IO

from storage.backup.copies import Copies
from storage.blobs.packs import Packs
from storage.database.connection import Readers, sqlite3
from storage.database.transaction import Transaction
from storage.database.writer import Writer
from storage.disk.durable import file_faults, publish, sync_file
from storage.erasure.deletions import in_slices
from storage.erasure.sample_rows import Move, move_rows
from storage.errors import HoneError, StorageBroken
from storage.tables.jobs import training_job

_WORN = """
SELECT pack, size_bytes, erased_bytes FROM packs
WHERE model_id = ? AND erased_bytes > 0 AND erased_bytes * 2 >= size_bytes
  AND NOT EXISTS (SELECT 1 FROM erasures WHERE erasures.model_id = packs.model_id)
"""
_LIVE = "SELECT id, offset, length FROM samples WHERE model_id = ? AND pack = ? ORDER BY offset"
_NEW_PACK = "INSERT INTO packs (model_id, pack, size_bytes, leftovers) VALUES (?, ?, ?, 1)"
_MARK = "UPDATE packs SET leftovers = 1 WHERE model_id = ? AND pack = ?"
_REMOVE = "DELETE FROM packs WHERE model_id = ? AND pack = ?"
_UNMARK = """
UPDATE packs SET leftovers = 0, erased_bytes = erased_bytes + ? WHERE model_id = ? AND pack = ?
"""


def reclaim(
    writer: Writer, readers: Readers, packs: Packs, copies: Copies, *, model_id: int
) -> None:
    """Rewrite the worn packs of a model without erased samples, and remove the old packs.

    Not while a job trains on it: its child has the packs mapped. Raises StorageFull, StorageBroken.
    """
    with packs.lock(model_id):
        packs.require_sound()
        with readers.snapshot() as connection:
            if training_job(connection, model_id) is not None:
                return
            worn = connection.execute(_WORN, (model_id,)).fetchall()
        for row in worn:
            # In a damaged pack it is unknown where the good bytes begin.
            if packs.is_whole(model_id, row["pack"], row["size_bytes"]):
                key = {"model_id": model_id, "pack": row["pack"]}
                _Renewal(writer, readers, packs, copies, **key).run()


class _Renewal:
    """The rewriting of one pack. The caller holds the model's lock."""

    def __init__(
        self,
        writer: Writer,
        readers: Readers,
        packs: Packs,
        copies: Copies,
        *,
        model_id: int,
        pack: int,
    ) -> None:
        self._writer = writer
        self._readers = readers
        self._packs = packs
        self._copies = copies
        self._model_id = model_id
        self._pack = pack
        newest = "SELECT max(pack) FROM packs WHERE model_id = ?"
        with readers.snapshot() as connection:
            self._live = connection.execute(_LIVE, (model_id, pack)).fetchall()
            self._to = connection.execute(newest, (model_id,)).fetchone()[0] + 1

    def run(self) -> None:
        moves, size_bytes = self._copy() if self._live else ([], 0)
        if not self._begin(size_bytes):
            return
        erased_bytes = self._move(moves)
        self._copies.follow(self._readers, self._model_id)
        self._writer.write(partial(self._end, erased_bytes=erased_bytes))
        with file_faults("cannot give room back"):
            self._packs.path(self._model_id, self._pack).unlink(missing_ok=True)

    def _begin(self, size_bytes: int) -> bool:
        """Mark both packs, unless a job has begun; False without a mark and a copy."""

        def mark(transaction: Transaction) -> bool:
            if training_job(transaction.connection, self._model_id) is not None:
                return False
            if self._live:
                transaction.execute(_NEW_PACK, (self._model_id, self._to, size_bytes))
            transaction.execute(_MARK, (self._model_id, self._pack))
            return True

        begun = False
        try:
            begun = self._writer.write(mark)
        except StorageBroken:
            # Only a restart can tell whether the row was kept; both packs stay.
            raise
        except HoneError:
            self._discard()
            raise
        if not begun:
            self._discard()
        return begun

    def _move(self, moves: list[Move]) -> int:
        """Move the samples, and erase those that were deleted meanwhile; returns their bytes."""
        move = partial(move_rows, pack=self._pack, to=self._to)
        moved = {id_ for _, id_ in in_slices(self._writer, moves, move)}
        gone = [
            (offset, row["length"])
            for (offset, id_), row in zip(moves, self._live, strict=True)
            if id_ not in moved
        ]
        if gone:
            self._packs.erase(self._model_id, self._to, gone)
        return sum(length for _, length in gone)

    def _end(self, transaction: Transaction, erased_bytes: int) -> None:
        transaction.execute(_REMOVE, (self._model_id, self._pack))
        transaction.execute(_UNMARK, (erased_bytes, self._model_id, self._to))

    def _discard(self) -> None:
        with file_faults("cannot give room back"):
            self._packs.path(self._model_id, self._to).unlink(missing_ok=True)

    def _copy(self) -> tuple[list[Move], int]:
        """Where the samples are in the new pack, and its size in bytes."""
        old, new = (self._packs.path(self._model_id, pack) for pack in (self._pack, self._to))
        with file_faults("cannot give room back"):
            descriptor, name = tempfile.mkstemp(prefix="pack-", dir=old.parent)
            try:
                with os.fdopen(descriptor, "wb") as target, old.open("rb") as file:
                    moves = _write_live(self._live, file, target)
                    size_bytes = target.tell()
                    sync_file(target)
                publish(Path(name), new)
            except OSError:
                Path(name).unlink(missing_ok=True)
                raise
        return moves, size_bytes


def _write_live(live: list[sqlite3.Row], source: IO[bytes], target: IO[bytes]) -> list[Move]:
    moves = []
    for row in live:
        moves.append((target.tell(), row["id"]))
        source.seek(row["offset"])
        target.write(source.read(row["length"]))
    return moves
