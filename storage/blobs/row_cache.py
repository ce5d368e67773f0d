"""Rows made from samples, kept on disk so that they are made once: decoded images, features.

Imported by the training child: the standard library and numpy only.

A cache is a folder: `key` names what its rows are made by, `rows` holds them one after the other,
`ids` the sample of each (0: erased). Children append, the daemon erases; each holds `lock` while it
does. Ids to be erased are listed in `erased` first, and appends skip them: a child that made a row
before its sample was erased cannot bring it back.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, TypeAlias

import numpy as np

from storage.database.codec import dump
from storage.disk.durable import file_faults, make_folder, sync_file, sync_folder
from storage.disk.lock import held

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

Ids: TypeAlias = "NDArray[np.int64]"
_ID_BYTES = 8
_FAULT = "cannot keep rows in the cache"


class RowCache:
    """Rows of fixed size by sample id, on disk and mapped into memory.

    A row that the daemon erases while it is mapped turns into zeros: a child that found it earlier
    reads zeros from then on, just as in the sample's pack.
    """

    def __init__(self, folder: Path, *, row_bytes: int, capacity: int) -> None:
        self._folder = folder
        self.row_bytes = row_bytes
        self.capacity = capacity
        self._ids: Ids = np.empty(0, np.int64)
        self._order: Ids = np.empty(0, np.int64)
        self._sorted: Ids = self._ids
        self._mapped: NDArray[np.uint8] = np.empty((0, row_bytes), np.uint8)

    @classmethod
    def open(cls, folder: Path, *, key: str, row_bytes: int, max_bytes: int | None) -> RowCache:
        """Open or create a cache; one with another key or row size is replaced by an empty one.

        max_bytes: of all rows; None to use existing rows and append nothing. Raises StorageFull,
        StorageBroken.
        """
        if row_bytes < 1:
            raise ValueError(f"a row has at least one byte, not {row_bytes}")
        capacity = 0 if max_bytes is None else max(0, max_bytes) // row_bytes
        cache = cls(folder, row_bytes=row_bytes, capacity=capacity)
        with file_faults(_FAULT):
            make_folder(folder)
            with held(folder / "lock"):
                identity = {"key": key, "row_bytes": row_bytes}
                _prepare(folder, identity, capacity=None if max_bytes is None else capacity)
                cache._load(_ids_of(folder))
        return cache

    def __enter__(self) -> RowCache:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        """(n,): the index of each sample's row, -1 where it has none."""
        wanted = np.asarray(ids, np.int64)
        if len(self._sorted) == 0:
            return np.full(wanted.shape, -1, np.int64)
        at = np.searchsorted(self._sorted, wanted).clip(max=len(self._sorted) - 1)
        return np.where((self._sorted[at] == wanted) & (wanted > 0), self._order[at], -1)

    def append(self, ids: ArrayLike, rows: NDArray[Any]) -> int:
        """Store the rows of samples that have none yet; returns how many fit, always the first.

        rows: (n, row_bytes) uint8, or any contiguous array of as many bytes. Durable when it
        returns; a crash keeps each row entirely or not at all. Raises StorageFull, StorageBroken.
        """
        wanted = np.asarray(ids, np.int64)
        table = np.ascontiguousarray(rows).view(np.uint8).reshape(len(wanted), self.row_bytes)
        with file_faults(_FAULT), held(self._folder / "lock"):
            ids = _read_ids(self._folder / "ids")  # another child may have appended meanwhile
            fit = max(0, min(len(wanted), self.capacity - len(ids)))
            good = ~np.isin(wanted[:fit], _read_ids(self._folder / "erased"))
            kept, table = wanted[:fit][good], table[:fit][good]
            if len(kept):
                _write_at(self._folder / "rows", len(ids) * self.row_bytes, table)
                _write_at(self._folder / "ids", len(ids) * _ID_BYTES, kept)
        self._load(np.concatenate([ids, kept]))
        return fit

    def close(self) -> None:
        """Release the mapping; the rows stay on disk."""
        self._mapped = np.empty((0, self.row_bytes), np.uint8)
        self._load(np.empty(0, np.int64))

    def _load(self, ids: Ids) -> None:
        self._ids = ids
        self._order = np.argsort(ids, kind="stable")
        self._sorted = ids[self._order]


def erase_from_caches(model_cache_folder: Path, ids: Iterable[int]) -> None:
    """Zero the rows of samples in every cache of a model and forget their ids, durably.

    Idempotent. Raises StorageFull, StorageBroken.
    """
    gone = np.fromiter(ids, np.int64)
    if len(gone) == 0 or not model_cache_folder.is_dir():
        return
    with file_faults("cannot erase from the cache"):
        for key in model_cache_folder.glob("*/key"):
            with held(key.parent / "lock"):
                _erase(key.parent, gone)


def _erase(folder: Path, gone: Ids) -> None:
    erased = folder / "erased"
    new = np.setdiff1d(gone, _read_ids(erased))
    if len(new):
        _write_at(erased, erased.stat().st_size if erased.exists() else 0, new)
    row_bytes = int(json.loads((folder / "key").read_text("utf-8"))["row_bytes"])
    ids = _read_ids(folder / "ids")
    _cut(folder / "rows", len(ids) * row_bytes)
    slots = np.flatnonzero(np.isin(ids, gone))
    if len(slots) == 0:
        return
    with (folder / "rows").open("r+b") as rows, (folder / "ids").open("r+b") as numbers:
        for slot in slots.tolist():
            rows.seek(slot * row_bytes)
            rows.write(bytes(row_bytes))
        _flush(rows)
        for slot in slots.tolist():
            numbers.seek(slot * _ID_BYTES)
            numbers.write(bytes(_ID_BYTES))
        _flush(numbers)


def _prepare(folder: Path, identity: dict[str, Any], *, capacity: int | None) -> None:
    """Keep the folder's rows if they are of this kind and still useful; otherwise start empty."""
    text = dump(identity, sort_keys=True)
    key = folder / "key"
    if key.exists() and key.read_text("utf-8") == text:
        ids = _ids_of(folder)
        if capacity is None:
            return
        worn = len(ids) == capacity and np.count_nonzero(ids) < len(ids) / 2
        if not worn and len(ids) <= capacity:
            return
    for name in ("key", "ids", "rows"):
        (folder / name).unlink(missing_ok=True)
    sync_folder(folder)
    for name in ("rows", "ids"):
        (folder / name).touch(mode=0o600)
    draft = folder / "key.new"
    draft.write_text(text, "utf-8")
    draft.replace(key)
    sync_folder(folder)


def _ids_of(folder: Path) -> Ids:
    """The ids whose rows are complete; truncates what a crash left after them."""
    identity = json.loads((folder / "key").read_text("utf-8"))
    whole = (folder / "rows").stat().st_size // identity["row_bytes"]
    ids = _read_ids(folder / "ids")[:whole]
    _cut(folder / "ids", len(ids) * _ID_BYTES)
    _cut(folder / "rows", len(ids) * identity["row_bytes"])
    return ids


def _read_ids(path: Path) -> Ids:
    if not path.exists():
        return np.empty(0, np.int64)
    data = path.read_bytes()
    return np.frombuffer(data[: len(data) // _ID_BYTES * _ID_BYTES], "<i8").astype(np.int64)


def _write_at(path: Path, offset: int, values: NDArray[Any]) -> None:
    """Write to the file, not the mapping: a full disk is then an error, not a SIGBUS."""
    if values.dtype == np.int64:
        values = values.astype("<i8")
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.seek(offset)
        file.write(np.ascontiguousarray(values).data)
        _flush(file)


def _cut(path: Path, size_bytes: int) -> None:
    if path.stat().st_size > size_bytes:
        with path.open("r+b") as file:
            file.truncate(size_bytes)
            _flush(file)


def _flush(file: IO[bytes]) -> None:
    file.flush()
    sync_file(file.fileno())


def _map(path: Path, shape: tuple[int, int]) -> NDArray[np.uint8]:
    if shape[0] == 0:
        return np.empty(shape, np.uint8)
    # A plain array: the memmap subclass costs microseconds at every slice.
    return np.asarray(np.memmap(path, np.uint8, mode="r", shape=shape))
