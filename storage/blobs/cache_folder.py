"""The files of a cache of rows, and what the daemon does to them.

A cache is a folder: `key` names what its rows are made by, `rows` holds them one after the other,
`entries` the sample and the digest of each (`ENTRY`). Who appends or erases holds `lock`.
Ids to be erased are listed in `erased` first, and appends skip them: a child that made a row before
its sample was erased cannot bring it back. `checked`: the rows were compared with their digests
since the daemon started.

A cache that cannot be read is dropped: no deletion and no start depends on it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from storage.arrays import NDArray
from storage.disk.durable import cut_file, file_faults, is_transient, sync_file, sync_folder
from storage.disk.lock import held
from storage.records.id_set import Ids

Entries: TypeAlias = "NDArray[Any]"
ID = "<i8"
ENTRY = [("id", ID), ("digest", "<u8")]
"""A dtype: what is kept of a row beside it. An id of 0: the row was erased, and has no digest."""
CHECKED = "checked"


def cache_path(cache_dir: Path, model_id: int, base: int) -> Path:
    """The folder of the caches of one base of a model."""
    return cache_dir / (str(model_id) if base == 1 else f"{model_id}-{base}")


def cache_paths(cache_dir: Path, model_id: int) -> list[Path]:
    """The folders of the caches of a model, some of which may not exist."""
    return [cache_path(cache_dir, model_id, 1), *sorted(cache_dir.glob(f"{model_id}-*"))]


def erase_from_caches(model_cache_folder: Path, ids: Iterable[int]) -> list[str]:
    """Zero the rows of samples in every cache of a model and forget their ids, durably.

    Drops caches that cannot be read, and returns their names. Idempotent. Raises StorageFull,
    StorageBroken.
    """
    gone, dropped = np.fromiter(ids, np.int64), list[str]()
    if len(gone) == 0 or not model_cache_folder.is_dir():
        return dropped
    with file_faults("cannot erase from the cache"):
        for folder in sorted(path for path in model_cache_folder.iterdir() if path.is_dir()):
            with held(folder / "lock"):
                try:
                    _erase(folder, gone)
                except (OSError, ValueError) as error:
                    if isinstance(error, OSError) and is_transient(error):
                        raise
                    empty_folder(folder)
                    dropped.append(folder.name)
    return dropped


def drop_caches(model_cache_folder: Path) -> None:
    """Empty every cache of a model. Raises StorageBroken."""
    with file_faults("cannot drop the cache"):
        for key in model_cache_folder.glob("*/key"):
            with held(key.with_name("lock")):
                empty_folder(key.parent)


def expect_checks(cache_dir: Path) -> None:
    """Have every cache checked when it is used next. Raises StorageBroken."""
    with file_faults("cannot have the caches checked"):
        for mark in cache_dir.glob(f"*/*/{CHECKED}"):
            mark.unlink()


def _erase(folder: Path, gone: Ids) -> None:
    key = folder / "key"
    if not key.exists():  # a crash has left its rows alone
        empty_folder(folder)
        return
    erased = folder / "erased"
    known = read_file(erased, ID)
    if len(new := np.setdiff1d(gone, known)):
        write_at(erased, known.nbytes, new.astype(ID))
    row_bytes = row_bytes_of(key)
    entries = read_file(folder / "entries", ENTRY)
    cut_file(folder / "rows", len(entries) * row_bytes)
    slots = np.flatnonzero(np.isin(entries["id"], gone))
    if len(slots) == 0:
        return
    for name, size in (("rows", row_bytes), ("entries", entries.itemsize)):
        with (folder / name).open("r+b") as file:
            for slot in slots.tolist():
                file.seek(slot * size)
                file.write(bytes(size))
            sync_file(file)


def empty_folder(folder: Path) -> None:
    """Remove all that is kept. First the key: without it nothing else counts."""
    for name in ("key", "rows", "entries", CHECKED):
        (folder / name).unlink(missing_ok=True)
    sync_folder(folder)


def row_bytes_of(key: Path) -> int:
    """Raises ValueError if it is no cache's key."""
    try:
        size = json.loads(key.read_bytes())["row_bytes"]
    except (ValueError, TypeError, KeyError):
        size = None
    if type(size) is not int or size < 1:
        raise ValueError("its key cannot be read")
    return size


def read_entries(folder: Path, row_bytes: int) -> Entries:
    """The entries whose rows are complete; truncates what a crash left after them."""
    whole = (folder / "rows").stat().st_size // row_bytes
    entries = read_file(folder / "entries", ENTRY)[:whole]
    cut_file(folder / "entries", entries.nbytes)
    cut_file(folder / "rows", len(entries) * row_bytes)
    return entries


def read_file(path: Path, kind: Any) -> NDArray[Any]:
    """What a file lists, without what a crash cut short; empty without a file. kind: a dtype."""
    data = path.read_bytes() if path.exists() else b""
    size = np.dtype(kind).itemsize
    return np.frombuffer(data[: len(data) // size * size], kind)


def write_at(path: Path, offset: int, values: NDArray[Any]) -> None:
    """Write to the file, not the mapping: a full disk is then an error, not a SIGBUS."""
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.seek(offset)
        file.write(np.ascontiguousarray(values).data)
        sync_file(file)
