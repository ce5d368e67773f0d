"""Repairs at start-up, so that nothing is left half stored."""

from __future__ import annotations

import logging
from datetime import datetime
from pathlib import Path

from storage.backup.own_backups import listed
from storage.backup.swap import finish
from storage.blobs.cache_folder import expect_checks
from storage.blobs.packs import Packs
from storage.database.connection import Readers
from storage.database.opening import is_sound_at_rest
from storage.disk.ballast import Ballast
from storage.disk.durable import cut_file, file_faults, free_bytes, make_folder, remove
from storage.disk.lock import DataDirLock
from storage.disk.permissions import close_to_others, require_own

_logger = logging.getLogger(__name__)
_ROOM_TO_START_BYTES = 256 << 10
"""For SQLite's shared memory, and for some pages of its log: enough to delete samples."""


def lock_folder(data_dir: Path) -> tuple[DataDirLock, Ballast]:
    """The lock of a data folder, which is made if there is none, and its ballast.

    Raises AlreadyExists for a folder with other data, DataDirLocked, StorageBroken, StorageFull.
    """
    with file_faults(f"cannot open the data folder {data_dir}"):
        make_folder(data_dir, parents=True)
        require_own(data_dir)
        ballast = Ballast(data_dir / "ballast")
        ballast.drop_if_low()
        return DataDirLock(data_dir / "hone.lock"), ballast


def prepare_folder(data_dir: Path, *, now: datetime) -> None:
    """Whatever must be done in a locked data folder before its database is opened.

    Raises StorageBroken, StorageFull.
    """
    if repaired := close_to_others(data_dir):
        told = {"paths": len(repaired), "first": str(repaired[0])}
        _logger.warning("permissions.repaired", extra={"fields": told})
    finish(data_dir)
    with file_faults(f"cannot prepare the data folder {data_dir}"):
        for name in ("files", "packs", "tmp", "cache", "backups"):
            make_folder(data_dir / name)
        _make_room(data_dir, now=now)


def _make_room(data_dir: Path, *, now: datetime) -> None:
    """On a full disk, remove what can be made again until the database can be opened.

    Temporary files come first, then caches, then own backups, oldest first; the newest goes only if
    the database is sound without it.
    """
    backups = listed(data_dir / "backups", now)
    expendable = [*(data_dir / "tmp").iterdir(), *(data_dir / "cache").iterdir(), *backups[::-1]]
    for path in expendable:
        if free_bytes(data_dir) >= _ROOM_TO_START_BYTES:
            return
        if path in backups[:1] and not is_sound_at_rest(data_dir / "hone.db"):
            return
        remove(path)
        told = {"removed": str(path.relative_to(data_dir))}
        _logger.warning("disk.room_made", extra={"fields": told})


def clear_folder(folder: Path) -> None:
    """Remove everything in a folder of temporary files."""
    with file_faults("cannot clear temporary files"):
        for path in folder.iterdir():
            remove(path)


def sweep_packs(readers: Readers, packs: Packs) -> None:
    """Remove packs without a row, and cut off bytes after the last committed one; have the caches
    of all checked when they are used next.

    `storage.integrity` reports bytes that a pack has lost.
    """
    rows = readers.all("SELECT * FROM packs")
    expect_checks(packs.cache_dir)
    sizes = {packs.path(row["model_id"], row["pack"]): row["size_bytes"] for row in rows}
    with file_faults("cannot sweep packs"):
        for path in packs.folder.glob("*/*"):
            if path not in sizes:
                path.unlink()
        for path, size_bytes in sizes.items():
            if path.exists():
                cut_file(path, size_bytes)
        for folder in packs.folder.iterdir():
            if not any(folder.iterdir()):
                folder.rmdir()
