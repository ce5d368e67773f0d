"""The ballast: a file that is deleted to make room when the disk is full.

On a full disk even a DELETE fails, because it needs room in the log, and without any room a
database cannot be opened. The ballast is then removed for as long as the one write takes, and what
is still free is held again: other programs would take it, and the next write would find nothing.
"""

from __future__ import annotations

import errno
import logging
import os
from pathlib import Path

from storage.disk.durable import file_faults, free_bytes, sync_file, sync_folder
from storage.errors import StorageFull

SIZE_BYTES = 8 << 20
_CHUNK_BYTES = 1 << 20
_LOW_BYTES = 1 << 20
_LEAST_BYTES = 1 << 16
_logger = logging.getLogger(__name__)


class Ballast:
    """Reserved disk space; to be used by one thread at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._was_dropped = False

    @property
    def is_out(self) -> bool:
        """Whether it was removed, or is there in part."""
        return not self._path.exists() or self._path.stat().st_size < SIZE_BYTES

    def drop(self) -> None:
        """Delete the ballast."""
        if self._path.exists():
            with file_faults("cannot remove the ballast"):
                size_bytes = self._path.stat().st_size
                self._path.unlink()
            self._was_dropped = True
            _logger.warning("ballast.dropped", extra={"fields": {"size_bytes": size_bytes}})

    def drop_if_low(self) -> None:
        """Delete it if the disk is almost full: start-up must write before it can report errors."""
        if free_bytes(self._path.parent) < _LOW_BYTES:
            self.drop()

    def restore(self) -> None:
        """Put it back if as much again stays free; after `drop`, as much of it as there is room."""
        free = free_bytes(self._path.parent)
        if self.is_out and free >= 2 * SIZE_BYTES:
            self._make(SIZE_BYTES)
        elif self._was_dropped and not self._path.exists():
            size_bytes = min(free, SIZE_BYTES)
            # File systems need some of what is free for themselves.
            while size_bytes >= _LEAST_BYTES and not self._make(size_bytes):
                size_bytes //= 2

    def _make(self, size_bytes: int) -> bool:
        """Returns whether there was room for it."""
        draft = self._path.with_suffix(".new")
        try:
            with file_faults("cannot make the ballast"):
                _allocate(draft, size_bytes)
                draft.replace(self._path)
                sync_folder(self._path.parent)
        except StorageFull:
            draft.unlink(missing_ok=True)
            return False
        return True


def _allocate(path: Path, size_bytes: int) -> None:
    """Write bytes that no filesystem can leave out: allocated explicitly, or incompressible."""
    with path.open("wb") as file:
        if not _allocated(file.fileno(), size_bytes):
            for start in range(0, size_bytes, _CHUNK_BYTES):
                file.write(os.urandom(min(_CHUNK_BYTES, size_bytes - start)))
        sync_file(file)


def _allocated(descriptor: int, size_bytes: int) -> bool:
    """False where the system or the filesystem cannot allocate."""
    if not hasattr(os, "posix_fallocate"):
        return False
    try:
        os.posix_fallocate(descriptor, 0, size_bytes)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP):
            return False
        raise
    return True
