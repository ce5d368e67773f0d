"""Only the owner of a data folder may read it: it holds samples, labels and the token."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from storage.disk.durable import file_faults
from storage.errors import AlreadyExists, InUse

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
OWNER_ONLY_UMASK = _OTHERS
_OURS = frozenset(
    {
        *("backups", "broken", "cache", "files", "packs", "restoring", "tmp"),
        "lost+found",  # if the folder is a mount point
    }
)
"""Folders that a data folder may hold before it holds a database."""
_REPLACED = "replaced-"
"""So begin the names of folders that data are moved to, perhaps by a restore that was cut short."""


def require_own(folder: Path) -> None:
    """Raises AlreadyExists for a folder with foreign folders, like a home or a project.

    Those must not lose their permissions. Single files, like a log, are allowed.
    """
    if (folder / "hone.db").exists():
        return
    foreign = sorted(
        path.name
        for path in folder.iterdir()
        if path.is_dir() and path.name not in _OURS and not path.name.startswith(_REPLACED)
    )
    if foreign:
        raise AlreadyExists(
            f"{folder} holds the folder {foreign[0]!r} and no data of Hone: name a new or an empty "
            "folder (HONED_DATA_DIR, --data-dir)"
        )


def require_owner(data_dir: Path, *, doing: str) -> None:
    """Raises InUse for another user's data: files that root makes there are closed to their daemon.

    doing: what that user may do with them.
    """
    database = data_dir / "hone.db"
    if os.name == "posix" and database.exists():
        owner = database.stat().st_uid
        if owner != os.geteuid():
            told = f"{data_dir} belongs to the user with id {owner}; {doing} as that user"
            raise InUse(told)


def open_to_others(folder: Path) -> Iterator[Path]:
    """Files and folders, including `folder`, that group or others may read, write or enter.

    None on Windows, where access is inherited and modes mean nothing. Raises OSError.
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
    """Remove all permissions of group and others; returns the paths that had any.

    Raises StorageBroken if the system does not allow that.
    """
    closed = []
    with file_faults(f"cannot make {folder} private"):
        for path in open_to_others(folder):
            path.chmod(stat.S_IMODE(path.stat().st_mode) & ~_OTHERS)
            closed.append(path)
    return closed


def _is_open(status: os.stat_result) -> bool:
    return not stat.S_ISLNK(status.st_mode) and bool(status.st_mode & _OTHERS)
