"""Packs: append-only files that hold the bytes of samples.

Samples are records in `<model id>/<n>.pack`, not blobs in rows, because
- training maps packs into memory and gathers a batch at memory speed, without SQLite and without
  an open reader, which would keep the WAL from shrinking;
- a row without its tensor is about 150 bytes, so an index of a million samples is read quickly;
- SQLite writes a blob twice (WAL, then database) and a pack's bytes are written once.
A record is all inputs of one sample, concatenated in the signature's order, C order,
little-endian; for a model that takes images it is the image as it was sent. Bytes are durable
before their rows are; bytes after a pack's last committed one belong to no sample, and are cut off
at start-up.
"""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from io import FileIO
from pathlib import Path
from typing import BinaryIO

from msgspec import Struct

from storage.blobs.cache_folder import cache_paths
from storage.blobs.sharing import LockByModel, SharedLock
from storage.database.connection import Readers, sqlite3
from storage.database.transaction import Transaction
from storage.disk.durable import (
    cut_file,
    file_faults,
    make_folder,
    publish,
    sync_file,
    sync_folder,
)
from storage.disk.spool import Spool
from storage.errors import StorageBroken
from storage.records.samples import CHANGED, LOST, UNREADABLE

# A pack takes appends until it is this long.
_ROLL_BYTES = 64 << 20
# Shorter uploads are copied into the open pack, so that a million samples are about a hundred
# files to map, not thousands.
_OWN_PACK_BYTES = 16 << 20
# Ranges within so many bytes are read at once.
_READ_BYTES = 1 << 18
_ZEROS = bytes(1 << 16)


class Placement(Struct, frozen=True):
    """Where staged bytes were placed: [offset_bytes, size_bytes) of a pack."""

    pack: int
    offset_bytes: int
    size_bytes: int


class Packs:
    """The packs of all models, below `folder`, and the caches made from them, below `cache_dir`.

    require_sound: raises StorageBroken while it is unknown whether the last commit was kept. Then
    no pack is changed: rows may name bytes after the last one known to be committed.
    """

    def __init__(
        self, folder: Path, *, readers: Readers, cache_dir: Path, require_sound: Callable[[], None]
    ) -> None:
        self.folder = folder
        self.cache_dir = cache_dir
        self._readers = readers
        self.require_sound = require_sound
        self._locks = LockByModel(SharedLock)

    def lock(self, model_id: int) -> AbstractContextManager[None]:
        """Lock the model's packs exclusively: no other thread appends, erases or removes."""
        return self._locks.of(model_id).alone()

    def share(self, model_id: int) -> AbstractContextManager[None]:
        """Keep other threads from erasing, removing or moving bytes in the model's packs."""
        return self._locks.of(model_id).shared()

    def path(self, model_id: int, pack: int) -> Path:
        return self.folder / str(model_id) / f"{pack}.pack"

    def is_whole(self, model_id: int, pack: int, size_bytes: int) -> bool:
        """Whether a pack has at least as many bytes as were stored in it."""
        return size_of(self.path(model_id, pack)) >= size_bytes

    def place(
        self, model_id: int, spool: Spool, *, ranges: Iterable[tuple[int, int]] | None
    ) -> Placement:
        """Make staged bytes durable in a pack; the caller holds `lock`, and writes the rows.

        ranges: (offset, length) of the bytes to keep, None for all of them.
        Raises StorageFull, StorageBroken; then nothing is kept.
        """
        self.require_sound()
        with self._readers.snapshot() as connection:
            newest, open_pack, open_size = self._open_pack(connection, model_id)
        with file_faults("cannot store samples"):
            if ranges is None and spool.path is not None and spool.size_bytes >= _OWN_PACK_BYTES:
                path = self.path(model_id, newest + 1)
                make_folder(path.parent)
                publish(spool.sync_and_close(), path)
                return Placement(newest + 1, 0, spool.size_bytes)
            try:
                kept = [(0, spool.size_bytes)] if ranges is None else ranges
                size = self._append(self.path(model_id, open_pack), open_size, spool, kept)
            except OSError:
                self.undo(model_id, Placement(open_pack, open_size, open_size))
                raise
        return Placement(open_pack, open_size, size)

    def append(
        self,
        transaction: Transaction,
        model_id: int,
        spool: Spool,
        *,
        ranges: Iterable[tuple[int, int]] | None,
    ) -> Placement:
        """As `place`, in the transaction that writes the rows: its commit flushes the pack first.

        The caller holds `share`: others may append too, but all do so in the writing thread.
        """
        _, pack, start = self._open_pack(transaction.connection, model_id)
        path = self.path(model_id, pack)

        def take_back() -> None:
            if start == 0:
                transaction.files.forget(path)
            self.undo(model_id, Placement(pack, start, start))

        with file_faults("cannot store samples"):
            if start == 0:
                make_folder(path.parent)
            transaction.after_rollback(take_back)
            file = transaction.files.open(path)
            if start == 0:
                sync_folder(path.parent)
            kept = [(0, spool.size_bytes)] if ranges is None else ranges
            return Placement(pack, start, _write_at(file, start, spool, kept))

    def undo(self, model_id: int, placement: Placement) -> None:
        """Remove placed bytes whose rows could not be written."""
        path = self.path(model_id, placement.pack)
        with file_faults("cannot take back samples"):
            if placement.offset_bytes == 0:
                path.unlink(missing_ok=True)
            else:
                cut_file(path, placement.offset_bytes)

    def read(self, model_id: int, pack: int, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """The bytes of each range (offset, length); fewer where the pack has lost some."""
        path = self.path(model_id, pack)
        if size_of(path) == 0:
            return [b"" for _ in ranges]
        with file_faults("cannot read a sample"), path.open("rb") as file:
            start = min((offset for offset, _ in ranges), default=0)
            end = max((offset + length for offset, length in ranges), default=0)
            if end - start > _READ_BYTES:
                return [_read_at(file, *span) for span in ranges]
            together = _read_at(file, start, end - start)
            return [together[at - start : at - start + length] for at, length in ranges]

    def record(self, model_id: int, row: sqlite3.Row) -> tuple[bytes, str | None]:
        """The bytes of a sample's row; and why they are not those that were stored, or None."""
        if not self.is_whole(model_id, row["pack"], row["offset"] + row["length"]):
            return b"", LOST
        try:
            (data,) = self.read(model_id, row["pack"], [(row["offset"], row["length"])])
        except StorageBroken:
            return b"", UNREADABLE
        return data, None if hashlib.sha256(data).digest() == row["sha256"] else CHANGED

    def erase(self, model_id: int, pack: int, ranges: Iterable[tuple[int, int]]) -> None:
        """Overwrite ranges (offset, length) with zeros, durably; idempotent."""
        path = self.path(model_id, pack)
        end = size_of(path)
        if end == 0:
            return
        with file_faults("cannot erase a sample"), path.open("r+b") as file:
            for offset_bytes, stored in ranges:
                length = min(stored, end - offset_bytes)  # a damaged pack ends earlier
                file.seek(offset_bytes)
                for start in range(0, length, len(_ZEROS)):
                    file.write(_ZEROS[: length - start])
            sync_file(file)

    def remove(self, model_id: int) -> None:
        """Remove all packs of a model, and its caches."""
        for folder in (self.folder / str(model_id), *cache_paths(self.cache_dir, model_id)):
            if folder.exists():
                shutil.rmtree(folder)

    def _open_pack(self, connection: sqlite3.Connection, model_id: int) -> tuple[int, int, int]:
        """Number of the newest pack; number and size of the one that takes appends."""
        rows = connection.execute(
            "SELECT pack, size_bytes FROM packs WHERE model_id = ? ORDER BY pack", (model_id,)
        ).fetchall()
        newest = rows[-1]["pack"] if rows else 0
        for row in rows:
            # The bytes lost by a damaged pack must not be filled with those of other samples.
            if row["size_bytes"] < _ROLL_BYTES and self.is_whole(model_id, *row):
                return newest, row["pack"], row["size_bytes"]
        return newest, newest + 1, 0

    @staticmethod
    def _append(path: Path, size: int, spool: Spool, ranges: Iterable[tuple[int, int]]) -> int:
        make_folder(path.parent)
        is_new = size == 0
        with path.open("w+b" if is_new else "r+b", buffering=0) as file:
            size = _write_at(file, size, spool, ranges)
            sync_file(file)
        if is_new:
            sync_folder(path.parent)
        return size


def _write_at(file: FileIO, size: int, spool: Spool, ranges: Iterable[tuple[int, int]]) -> int:
    """Write after the first `size` bytes, dropping anything beyond; returns the new size."""
    if file.seek(0, 2) > size:
        file.truncate(size)
    file.seek(size)
    for offset_bytes, length in ranges:
        for chunk in spool.read(offset_bytes, length):
            left = memoryview(chunk)
            while left:
                written = file.write(left)
                size, left = size + written, left[written:]
    return size


def _read_at(file: BinaryIO, offset_bytes: int, length: int) -> bytes:
    file.seek(offset_bytes)
    return file.read(length)


def size_of(path: Path) -> int:
    """In bytes; 0 where there is no file."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0
