"""Only the owner of a data folder may read it: samples, labels and the token lie there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from storage.disk.durable import file_faults
from storage.errors import AlreadyExists

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
OWNER_ONLY_UMASK = _OTHERS
_OURS = frozenset(
    {
        *("backups", "broken", "cache", "files", "packs", "restoring", "tmp"),
        "lost+found",  # of a file system of its own
    }
)
"""Folders that a data folder may hold before it holds a database."""


def require_own(folder: Path) -> None:
    """Raises AlreadyExists for a folder with folders of others, as a home or a project has them.

    They must not be closed to others. Single files, as a log, may lie there.
    """
    if (folder / "hone.db").exists():
        return
    foreign = sorted(
        each.name for each in folder.iterdir() if each.is_dir() and each.name not in _OURS
    )
    if foreign:
        raise AlreadyExists(
            f"{folder} holds the folder {foreign[0]!r} and no data of Hone: name a new or an empty "
            "folder (HONED_DATA_DIR, --data-dir)"
        )


def open_to_others(folder: Path) -> Iterator[Path]:
    """Files and folders, `folder` among them, that group or others may read, write or enter.

    None on Windows, where access is inherited and modes say nothing. Raises OSError.
    """
    if os.name != "posix" or not folder.is_dir():
        return
    if _is_open(folder.lstat()):
        yield folder
    for where, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = Path(where, name)
            try:
                is_open = _is_open(path.lstat())
            except FileNotFoundError:
                continue  # a running daemon removed it
            if is_open:
                yield path


def close_to_others(folder: Path) -> list[Path]:
    """Take from group and others what they may do there; the paths that were open.

    Raises StorageBroken if the system does not allow that.
    """
    found = []
    with file_faults(f"cannot make {folder} private"):
        for path in open_to_others(folder):
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS)
            found.append(path)
    return found


def _is_open(found: os.stat_result) -> bool:
    return not stat.S_ISLNK(found.st_mode) and bool(found.st_mode & _OTHERS)
