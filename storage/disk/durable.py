"""Durable writes: what these functions return from survives a power cut."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from storage.errors import Busy, HoneError, StorageBroken, StorageFull

if sys.platform == "darwin":
    from fcntl import F_FULLFSYNC, fcntl

_FULL = frozenset({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})
_SHORT_OF = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM})
"""Of descriptors or memory, which others give back."""
_DISK = _FULL | _SHORT_OF | {errno.EIO, errno.EROFS, getattr(errno, "ESTALE", errno.EIO)}


@contextmanager
def file_faults(what: str) -> Iterator[None]:
    """Raise StorageFull, Busy or StorageBroken for an OSError; what: the work, in words."""
    try:
        yield
    except OSError as error:
        raise fault_of(error, what) from error


def fault_of(error: OSError, what: str) -> HoneError:
    """Our error for an error of the file system, as it concerns a caller."""
    reason = error.strerror or str(error)
    if error.errno in _FULL:
        return StorageFull(f"{what}: {reason}; free some space and try again")
    if error.errno in _SHORT_OF:
        return Busy(f"{what}: {reason}; try again in a moment")
    return StorageBroken(f"{what}: {reason}; check the disk and the data folder")


def is_of_disk(error: OSError) -> bool:
    """Whether the machine is at fault, and not what was asked of it."""
    return error.errno in _DISK


def sync_file(descriptor: int) -> None:
    """Flush a file to the medium; on macOS fsync alone stops at the drive's cache."""
    if sys.platform == "darwin":
        fcntl(descriptor, F_FULLFSYNC)
    else:
        os.fsync(descriptor)


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries; Windows has no such call and keeps them in order by itself."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path) -> None:
    """Make a folder that only its owner enters, and flush its entry; one that exists may stay."""
    if folder.is_dir():
        return
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    sync_folder(folder.parent)


def publish(source: Path, destination: Path) -> None:
    """Rename a flushed file to its final name and flush the folder."""
    make_folder(destination.parent)
    source.replace(destination)
    sync_folder(destination.parent)
