"""Rows made from samples, kept on disk so that they are made once: decoded images, features.

Imported by the training child: the standard library and numpy only. Children append; the daemon
erases (cache_folder.py).

The first child that opens a cache after a start of the daemon compares all rows with their digests.
A cache that is damaged or cannot be read is dropped, and its rows are made anew.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from storage.blobs.cache_folder import (
    CHECKED,
    ENTRY,
    ID,
    Entries,
    empty_folder,
    read_entries,
    read_file,
    row_bytes_of,
    write_at,
)
from storage.database.codec import dump
from storage.disk.durable import file_faults, is_transient, make_folder, write_file
from storage.disk.lock import held
from storage.errors import in_words
from storage.records.id_set import Ids

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Digests: TypeAlias = "NDArray[np.uint64]"
Table: TypeAlias = "NDArray[np.uint8]"
_CHECKED_AT_ONCE_BYTES = 1 << 18
_FAULT = "cannot keep rows in the cache"


class RowCache:
    """Rows of fixed size by sample id, on disk and mapped into memory.

    A row that the daemon erases while it is mapped turns into zeros: a child that found it earlier
    reads zeros from then on, just as in the sample's pack. damage: why the cache was dropped when
    it was opened, None if it was not.
    """

    def __init__(self, folder: Path, *, key: str, row_bytes: int, capacity: int) -> None:
        self._folder = folder
        identity = {"key": key, "row_bytes": row_bytes, "digest": "crc32"}
        self._identity = dump(identity, sort_keys=True)
        self.row_bytes = row_bytes
        self.capacity = capacity
        self.damage: str | None = None
        self._ids: Ids = np.empty(0, np.int64)
        self._order: Ids = np.empty(0, np.int64)
        self._sorted: Ids = self._ids
        self._mapped: NDArray[np.uint8] = np.empty((0, row_bytes), np.uint8)

    @classmethod
    def open(
        cls,
        folder: Path,
        *,
        key: str,
        row_bytes: int,
        max_bytes: int | None,
        tick: Callable[[], None] = lambda: None,
    ) -> RowCache:
        """Open or create a cache; one with another key or row size is replaced by an empty one.

        So is a damaged one. max_bytes: of all rows; None to use existing rows and append nothing;
        a damaged cache then counts as empty, and stays for who may replace it. tick: called now and
        then while rows are checked, and may raise. Raises StorageFull, StorageBroken.
        """
        if row_bytes < 1:
            raise ValueError(f"a row has at least one byte, not {row_bytes}")
        capacity = 0 if max_bytes is None else max(0, max_bytes) // row_bytes
        cache = cls(folder, key=key, row_bytes=row_bytes, capacity=capacity)
        with file_faults(_FAULT):
            make_folder(folder, parents=True)
            cache._open(None if max_bytes is None else capacity, tick)
        return cache

    def __enter__(self) -> RowCache:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        """Number of used rows; erased rows stay used until the cache is recreated."""
        return len(self._ids)

    @property
    def rows(self) -> NDArray[np.uint8]:
        """(len(self), row_bytes), mapped read-only; read the property again after an append."""
        if len(self._mapped) != len(self._ids):
            with file_faults(_FAULT):
                self._mapped = _map(self._folder / "rows", (len(self._ids), self.row_bytes))
        return self._mapped

    def find(self, ids: ArrayLike) -> Ids:
        """(n,): the index of each sample's newest row, -1 where it has none."""
        wanted = np.asarray(ids, np.int64)
        if len(self._sorted) == 0:
            return np.full(wanted.shape, -1, np.int64)
        at = (np.searchsorted(self._sorted, wanted, side="right") - 1).clip(min=0)
        return np.where((self._sorted[at] == wanted) & (wanted > 0), self._order[at], -1)

    def append(self, ids: ArrayLike, rows: NDArray[Any]) -> int:
        """Store new rows of samples; returns how many fit, always the first.

        rows: (n, row_bytes) uint8, or any contiguous array of as many bytes. Durable when it
        returns; a crash keeps each row entirely or not at all. None fits once the cache was
        dropped. Raises StorageFull, StorageBroken.
        """
        wanted = np.asarray(ids, np.int64)
        table = np.ascontiguousarray(rows).view(np.uint8).reshape(len(wanted), self.row_bytes)
        with file_faults(_FAULT), held(self._folder / "lock"):
            if not self._is_there():
                return 0
            known = read_file(self._folder / "entries", ENTRY)  # another child may have appended
            fit = max(0, min(len(wanted), self.capacity - len(known)))
            good = ~np.isin(wanted[:fit], read_file(self._folder / "erased", ID))
            kept, table = wanted[:fit][good], table[:fit][good]
            new = np.empty(len(kept), ENTRY)
            new["id"], new["digest"] = kept, digests_of(kept, table)
            if len(new):
                write_at(self._folder / "rows", len(known) * self.row_bytes, table)
                write_at(self._folder / "entries", known.nbytes, new)
        self._load(np.concatenate([known, new]))
        return fit

    def close(self) -> None:
        """Release the mapping; the rows stay on disk."""
        self._mapped = np.empty((0, self.row_bytes), np.uint8)
        self._load(np.empty(0, ENTRY))

    def _open(self, capacity: int | None, tick: Callable[[], None]) -> None:
        lock = self._folder / "lock"
        entries = np.empty(0, ENTRY)
        with held(lock):
            try:
                self._prepare(capacity)
                entries = read_entries(self._folder, self.row_bytes)
            except (OSError, ValueError) as error:
                self._drop(error, capacity)
        if self.damage is None and not (self._folder / CHECKED).exists():
            try:
                self._check(entries, tick)
            except (OSError, ValueError) as error:
                entries = entries[:0]
                with held(lock):
                    self._drop(error, capacity)
        self._load(entries)

    def _check(self, entries: Entries, tick: Callable[[], None]) -> None:
        """Raises ValueError if rows are damaged, OSError if they cannot be read."""
        wrong = self._wrong(entries, tick)
        with held(self._folder / "lock"):
            now = read_file(self._folder / "entries", ENTRY)
            wrong = wrong[wrong < len(now)]
            # What was erased since it was read is zeros.
            wrong = wrong[now[wrong] == entries[wrong]]
            if len(wrong):
                raise ValueError(f"{len(wrong)} of {len(entries)} rows are not what was kept")
            (self._folder / CHECKED).touch(mode=0o600)

    def _wrong(self, entries: Entries, tick: Callable[[], None]) -> Ids:
        """Indices of the rows whose digest is not that of their entry. Raises OSError."""
        indices = [np.empty(0, np.int64)]
        step = max(1, _CHECKED_AT_ONCE_BYTES // self.row_bytes)
        with (self._folder / "rows").open("rb") as file:
            for start in range(0, len(entries), step):
                some = entries[start : start + step]
                rows = np.empty((len(some), self.row_bytes), np.uint8)
                file.readinto(rows.data)
                differs = digests_of(some["id"], rows) != some["digest"]
                indices.append(start + np.flatnonzero(differs & (some["id"] != 0)))
                tick()
        return np.concatenate(indices)

    def _prepare(self, capacity: int | None) -> None:
        """Keep the rows if they are of this kind and still useful; otherwise start empty."""
        key = self._folder / "key"
        if self._is_there():
            entries = read_entries(self._folder, self.row_bytes)
            if capacity is None:
                return
            worn = len(entries) == capacity and np.count_nonzero(entries["id"]) < len(entries) / 2
            if not worn and len(entries) <= capacity:
                return
        elif key.exists():
            row_bytes_of(key)  # of another kind: but it must be one
        empty_folder(self._folder)
        for name in ("rows", "entries", CHECKED):
            (self._folder / name).touch(mode=0o600)
        write_file(key, self._identity.encode())

    def _drop(self, error: OSError | ValueError, capacity: int | None) -> None:
        """Start empty, and say why; raises a shortage, which is no damage."""
        if isinstance(error, OSError) and is_transient(error):
            raise error
        self.damage = in_words(error)
        if capacity is not None:
            empty_folder(self._folder)
            self._prepare(capacity)

    def _is_there(self) -> bool:
        """Whether the folder holds this cache, not another, or none."""
        key = self._folder / "key"
        return key.exists() and key.read_bytes() == self._identity.encode()

    def _load(self, entries: Entries) -> None:
        self._ids = entries["id"].astype(np.int64)
        self._order = np.argsort(self._ids, kind="stable")
        self._sorted = self._ids[self._order]


def digests_of(ids: Ids, rows: Table) -> Digests:
    """(n,): the CRC-32 of each sample's row, begun with the sample's id. rows: (n, row_bytes)."""
    pairs = zip(ids.tolist(), rows, strict=True)
    return np.fromiter((zlib.crc32(row, sample_id) for sample_id, row in pairs), np.uint64)


def _map(path: Path, shape: tuple[int, int]) -> NDArray[np.uint8]:
    if shape[0] == 0:
        return np.empty(shape, np.uint8)
    # A plain array: the memmap subclass costs microseconds at every slice.
    return np.asarray(np.memmap(path, np.uint8, mode="r", shape=shape))
