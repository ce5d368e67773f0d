"""Durable writes: once these functions return, their work survives a power cut."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedWriter
from pathlib import Path
from typing import IO

from storage.errors import Busy, HoneError, ReadOnlyDisk, StorageBroken, StorageFull

if sys.platform == "darwin":
    from fcntl import F_FULLFSYNC, fcntl

    def sync_descriptor(descriptor: int) -> None:
        """Flush a file to the medium; on macOS fsync alone leaves it in the drive's cache."""
        fcntl(descriptor, F_FULLFSYNC)
else:

    def sync_descriptor(descriptor: int) -> None:
        """Flush a file to the medium."""
        os.fsync(descriptor)


_FULL = frozenset({errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC)})
_SHORT_OF = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN})
"""Shortages of descriptors, memory or processes, which end when others free some."""
_NO_THREAD = "can't start new thread"
"""What Python says of a shortage of processes, without its number."""
_DISK = _FULL | _SHORT_OF | {errno.EIO, errno.EROFS, getattr(errno, "ESTALE", errno.EIO)}


@contextmanager
def file_faults(what: str) -> Iterator[None]:
    """Raise StorageFull, Busy or StorageBroken for an OSError; what: the failed work, in words."""
    try:
        yield
    except OSError as error:
        raise fault_of(error, what) from error


def fault_of(error: OSError, what: str) -> HoneError:
    """The HoneError for an error of the file system."""
    reason = error.strerror or str(error)
    if isinstance(error, (IsADirectoryError, NotADirectoryError)):
        reason += f": {error.filename2 or error.filename}"
    if error.errno in _FULL:
        return StorageFull(f"{what}: {reason}; free some space and try again")
    if error.errno in _SHORT_OF:
        return Busy(f"{what}: {reason}; try again in a moment")
    fault = ReadOnlyDisk if error.errno == errno.EROFS else StorageBroken
    return fault(f"{what}: {reason}; check the disk and the data folder")


def is_of_disk(error: OSError) -> bool:
    """Whether the machine is at fault, and not the request."""
    return error.errno in _DISK


def is_transient(error: OSError) -> bool:
    """Whether the same may succeed later: the disk is full, or the machine short of something."""
    return error.errno in _FULL | _SHORT_OF


def fault_behind(error: BaseException, what: str) -> HoneError | None:
    """The HoneError if the machine caused this error or one in its chain; None if it did not.

    Libraries that are not written in Python raise their own errors, with the system's message.
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
    """The errno whose message a text contains; not ENOMEM, since a process has its own limit."""
    named = _DISK - {errno.ENOMEM}
    if _NO_THREAD in words:
        return errno.EAGAIN
    return next((number for number in named if os.strerror(number) in words), None)


def sync_file(file: IO[bytes]) -> None:
    """Flush a file's buffer, and the file to the medium."""
    file.flush()
    sync_descriptor(file.fileno())


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries; Windows has no such call, and keeps them in order itself."""
    if os.name == "nt":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_folder(folder: Path, *, parents: bool = False) -> None:
    """Create a folder that only its owner can enter, and flush its entry; it may exist already.

    parents: the same for each folder above it; never in a data folder that is open, which must not
    appear anew once it was removed. Raises OSError.
    """
    if folder.is_dir():
        return
    if parents:
        make_folder(folder.parent, parents=True)
    with suppress(FileExistsError):  # made meanwhile; a file fails where it is used, as no folder
        folder.mkdir(mode=0o700)
    sync_folder(folder.parent)


def create_private(path: Path) -> BufferedWriter:
    """Create a file that only its owner can read. Raises FileExistsError, OSError."""
    return open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600))


def write_file(path: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Replace a file; a crash leaves the old or the new one. Raises OSError."""
    draft = path.with_name(f".{path.name}.new")
    draft.unlink(missing_ok=True)
    with create_private(draft) as file:
        file.write(content)
        sync_file(file)
    if mode != 0o600:  # a child, which may not change modes, asks for no other
        draft.chmod(mode)
    publish(draft, path)


def cut_file(path: Path, size_bytes: int) -> None:
    """Truncate a longer file, durably. Raises OSError."""
    if path.stat().st_size > size_bytes:
        with path.open("r+b") as file:
            file.truncate(size_bytes)
            sync_file(file)


def free_bytes(folder: Path) -> int:
    """The space that the disk of a folder has free. Raises StorageBroken."""
    import shutil  # late: a millisecond of the start of a child

    with file_faults("cannot ask the disk for its free space"):
        return shutil.disk_usage(folder).free


def remove(path: Path) -> None:
    """Remove a file, or a folder with all that is in it. Raises OSError."""
    if path.is_dir():
        import shutil  # late, as above

        shutil.rmtree(path)
    else:
        path.unlink()


def publish(source: Path, destination: Path) -> None:
    """Rename a flushed file to its final name and flush the folder."""
    source.replace(destination)
    sync_folder(destination.parent)
