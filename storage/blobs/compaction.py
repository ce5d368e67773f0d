"""Frees the disk space of deleted samples: packs that are mostly zeros are rewritten."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import IO

from storage.backup.copies import Copies
from storage.blobs.packs import Packs
from storage.database.connection import Readers, sqlite3
from storage.database.transaction import Transaction
from storage.database.writer import Writer
from storage.disk.durable import file_faults, publish, sync_file
from storage.erasure.sample_rows import RewrittenPack, move_samples
from storage.errors import HoneError, StorageBroken

_WORN = """
SELECT pack, size_bytes, erased_bytes FROM packs
WHERE model_id = ? AND erased_bytes > 0 AND erased_bytes * 2 >= size_bytes
  AND NOT EXISTS (SELECT 1 FROM erasures WHERE erasures.model_id = packs.model_id)
"""
_LIVE = "SELECT id, offset, length FROM samples WHERE model_id = ? AND pack = ? ORDER BY offset"
_TRAINING = "SELECT 1 FROM jobs WHERE model_id = ? AND state = 'running'"
_DELETED = "SELECT 1 FROM erasures WHERE model_id = ? AND pack = ?"


def reclaim(
    writer: Writer, readers: Readers, packs: Packs, copies: Copies, *, model_id: int
) -> None:
    """Rewrite the worn packs of a model without erased samples, and remove the old packs.

    Not while a job trains on it: its child has the packs mapped. Raises StorageFull, StorageBroken.
    """
    with packs.lock(model_id):
        packs.require_sound()
        with readers.snapshot() as connection:
            if connection.execute(_TRAINING, (model_id,)).fetchone():
                return
            worn = connection.execute(_WORN, (model_id,)).fetchall()
        for row in worn:
            # In a damaged pack it is unknown where the good bytes begin.
            if not packs.is_whole(model_id, row["pack"], row["size_bytes"]):
                continue
            _renew(writer, readers, packs, copies, model_id=model_id, row=row)


def _renew(
    writer: Writer,
    readers: Readers,
    packs: Packs,
    copies: Copies,
    *,
    model_id: int,
    row: sqlite3.Row,
) -> None:
    with readers.snapshot() as connection:
        live = connection.execute(_LIVE, (model_id, row["pack"])).fetchall()
        newest = connection.execute(
            "SELECT max(pack) FROM packs WHERE model_id = ?", (model_id,)
        ).fetchone()[0]
    copy = _copy(packs, model_id, live, source=row["pack"], to=newest + 1) if live else None

    def swap(transaction: Transaction) -> bool:
        key = (model_id, row["pack"])
        # A sample that was deleted meanwhile is in the copy.
        if transaction.execute(_DELETED, key).fetchone():
            return False
        if transaction.execute(_TRAINING, (model_id,)).fetchone():
            return False
        move_samples(transaction, model_id, row["pack"], copy)
        return True

    try:
        swapped = writer.write(swap)
    except StorageBroken:
        # Only a restart can tell whether the rows were moved; both packs stay.
        raise
    except HoneError:
        if copy is not None:
            packs.path(model_id, copy.pack).unlink()
        raise
    with file_faults("cannot give room back"):
        if swapped:
            copies.move_samples(model_id, row["pack"], copy)
            packs.path(model_id, row["pack"]).unlink(missing_ok=True)
        elif copy is not None:
            packs.path(model_id, copy.pack).unlink()


def _copy(
    packs: Packs, model_id: int, live: list[sqlite3.Row], *, source: int, to: int
) -> RewrittenPack:
    old, new = packs.path(model_id, source), packs.path(model_id, to)
    with file_faults("cannot give room back"):
        descriptor, name = tempfile.mkstemp(prefix="pack-", dir=old.parent)
        try:
            with os.fdopen(descriptor, "wb") as target, old.open("rb") as file:
                moves = _write_live(live, file, target)
                size_bytes = target.tell()
                target.flush()
                sync_file(target.fileno())
            publish(Path(name), new)
        except OSError:
            Path(name).unlink(missing_ok=True)
            raise
    return RewrittenPack(to, size_bytes, moves)


def _write_live(
    live: list[sqlite3.Row], source: IO[bytes], target: IO[bytes]
) -> list[tuple[int, int]]:
    moves = []
    for row in live:
        moves.append((target.tell(), row["id"]))
        source.seek(row["offset"])
        target.write(source.read(row["length"]))
    return moves
