"""One daemon per data folder, and whether the last one shut down cleanly.

The lock is the operating system's, so it ends with its process, however that ends. The file
holds the owner's process id while the folder is open; a clean close blanks it. A file with an id
but no lock means that the last owner died. It is written in place, which a full disk allows.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storage.disk.durable import file_faults, sync_descriptor
from storage.errors import DataDirLocked

_OWNER_BYTES = 32

if sys.platform == "win32":
    import msvcrt

    import pywintypes
    import win32con
    import win32file

    # On Windows others cannot read a locked range, so it is far after the process id.
    _RANGE_OFFSET = 1 << 30

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, _RANGE_OFFSET, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

    def _wait_for_lock(descriptor: int) -> None:
        # msvcrt's own wait gives up after ten seconds.
        where = pywintypes.OVERLAPPED()
        where.Offset = _RANGE_OFFSET
        handle = msvcrt.get_osfhandle(descriptor)
        win32file.LockFileEx(handle, win32con.LOCKFILE_EXCLUSIVE_LOCK, 1, 0, where)
else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _wait_for_lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Wait for a lock file, and hold it while the block runs or until the process ends."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        _wait_for_lock(descriptor)
        yield
    finally:
        os.close(descriptor)


class DataDirLock:
    """The lock of a data folder, held from construction until `release`.

    unclean: the last owner never released it.
    Raises DataDirLocked if another process holds it.
    """

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(self._descriptor)
        except OSError as error:
            owner = self._read() or "unknown"
            os.close(self._descriptor)
            raise DataDirLocked(
                f"{path.parent} is in use by process {owner}; "
                "stop that daemon or choose another data folder"
            ) from error
        self.unclean = bool(self._read())
        self._write(str(os.getpid()))

    def release(self, *, clean: bool) -> None:
        """Release the folder to other processes; clean: nothing is left to be repaired.

        Raises StorageBroken, StorageFull if that cannot be noted; it is released all the same.
        """
        try:
            with file_faults("cannot note that the data folder was closed"):
                if clean:
                    self._write("")
        finally:
            os.close(self._descriptor)

    def _read(self) -> str:
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        return os.read(self._descriptor, _OWNER_BYTES).decode("ascii", "replace").strip()

    def _write(self, owner: str) -> None:
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        os.write(self._descriptor, owner.encode("ascii").ljust(_OWNER_BYTES))
        sync_descriptor(self._descriptor)
