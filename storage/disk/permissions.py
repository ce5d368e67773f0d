"""Only the owner of a data folder may read it: samples, labels and the token lie there."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from storage.disk.durable import file_faults

_OTHERS = stat.S_IRWXG | stat.S_IRWXO
OWNER_ONLY_UMASK = _OTHERS


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
