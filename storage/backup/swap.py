"""Swaps the data unpacked by `honed restore` with those in the data folder: all or nothing.

The new data are built and verified below `restoring`. Once the plan is written there, the swap is
completed, if necessary by the next start.
"""

from __future__ import annotations

import json
import os
import shutil
from datetime import datetime, timezone
from pathlib import Path

from storage.backup.copies import FILES_OF_DATABASE
from storage.database.codec import dump
from storage.disk.durable import file_faults, make_folder, remove, sync_folder, write_file

RESTORING = "restoring"
_PLAN = "plan.json"
_NEW = ("files", "packs", "hone.db")
_OLD = (*FILES_OF_DATABASE, "files", "packs", "cache", "backups", "broken")
_STAMP = "%Y%m%dT%H%M%SZ"


def holds_data(data_dir: Path) -> bool:
    """Whether a daemon has stored data there."""
    if (data_dir / "hone.db").exists():
        return True
    folders = (data_dir / name for name in ("files", "packs", "backups", "broken"))
    return any(folder.is_dir() and any(folder.iterdir()) for folder in folders)


def begin(data_dir: Path) -> Path:
    """An empty folder to build in; unfinished leftovers of an earlier one are removed."""
    folder = data_dir / RESTORING
    with file_faults("cannot begin to restore"):
        if folder.exists():
            shutil.rmtree(folder)
        for name in ("files", "packs"):
            make_folder(folder / name, parents=True)
    return folder


def swap_in(data_dir: Path, *, now: datetime) -> Path | None:
    """Move the built data into place; returns where the old data went, None if there were none."""
    aside = _aside(data_dir, now) if holds_data(data_dir) else None
    with file_faults("cannot put the backup in place"):
        plan = data_dir / RESTORING / _PLAN
        told = {"aside": None if aside is None else str(aside)}
        write_file(plan, dump(told, ensure_ascii=True).encode())
    finish(data_dir)
    return aside


def finish(data_dir: Path) -> None:
    """Carry out a planned swap, or remove data built without a plan; the caller holds the
    folder's lock.
    """
    folder = data_dir / RESTORING
    if not folder.is_dir():
        return
    with file_faults("cannot put the backup in place"):
        if (folder / _PLAN).exists():
            aside = json.loads((folder / _PLAN).read_text("utf-8"))["aside"]
            _carry_out(data_dir, folder, None if aside is None else Path(aside))
        shutil.rmtree(folder)
        sync_folder(data_dir)


def _carry_out(data_dir: Path, folder: Path, aside: Path | None) -> None:
    for name in _OLD:
        # Once the new folder has been moved there, it holds the new data.
        is_old = name not in _NEW or (folder / name).exists()
        if not (is_old and (data_dir / name).exists()):
            continue
        if aside is None:
            remove(data_dir / name)  # an empty folder, or caches: data are set aside
        else:
            make_folder(aside, parents=True)
            (data_dir / name).replace(aside / name)
    if aside is not None and aside.is_dir():
        sync_folder(aside)
    for name in _NEW:
        if (folder / name).exists():
            (folder / name).replace(data_dir / name)
    sync_folder(data_dir)


def _aside(data_dir: Path, now: datetime) -> Path:
    """Next to the data folder; within a mount, a drive, or where its parent is not writable."""
    stamp = now.astimezone(timezone.utc).strftime(_STAMP)
    within = data_dir / f"replaced-{stamp}"
    if data_dir.parent == data_dir:
        return within
    beside = data_dir.with_name(f"{data_dir.name}.replaced-{stamp}")
    try:
        beside.mkdir(mode=0o700)
        sync_folder(beside.parent)
    except OSError:
        return within
    if os.stat(beside).st_dev != os.stat(data_dir).st_dev:  # noqa: PTH116
        beside.rmdir()
        return within
    return beside
