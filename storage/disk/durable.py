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


def fault_behind(error: BaseException, what: str) -> HoneError | None:
    """Our error if the machine was at fault, be it behind other errors; None if it was not.

    Libraries that are not written in Python raise errors of their own, with the system's words.
    """
    behind: BaseException | None = error
    while behind is not None:
        if isinstance(behind, (StorageFull, Busy, StorageBroken)):
            return behind
        number = behind.errno if isinstance(behind, OSError) else _number_in(str(behind))
        if number is not None and number in _DISK:
            return fault_of(OSError(number, os.strerror(number)), what)
        behind = behind.__cause__ or behind.__context__
    return None


def _number_in(words: str) -> int | None:
    """The system's error that a text names. Memory is none of them: a process has its own limit."""
    named = _DISK - {errno.ENOMEM}
    return next((number for number in named if os.strerror(number) in words), None)


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
