"""Whether an open database is still the one at its path.

What is written to a file that was removed or moved away is lost with it, and no error says so.
"""

from __future__ import annotations

from pathlib import Path

from storage.errors import StorageBroken

_MARK = tuple[int, int]
"""Device and inode of a file."""
_REMEDY = (
    "what was stored since cannot be kept; put it back, or `honed restore` a backup, and start the "
    "daemon again"
)


class Presence:
    """The files of one open database: device and inode of each, from when it was first seen.

    SQLite removes none of them before its last connection closes.
    """

    def __init__(self, database: Path) -> None:
        beside = (database.with_name(f"{database.name}-{kind}") for kind in ("wal", "shm"))
        self._known: dict[Path, _MARK | None] = dict.fromkeys((database, *beside))

    def require(self) -> None:
        """Raises StorageBroken if one of them was removed or replaced."""
        for path, known in self._known.items():
            mark = _mark(path)
            if known is None:
                self._known[path] = mark
            elif mark != known:
                what = "removed" if mark is None else "replaced by another file"
                raise StorageBroken(f"{path} was {what} while the daemon ran: {_REMEDY}")


def _mark(path: Path) -> _MARK | None:
    """None where there is no file, or its folder cannot be entered."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
