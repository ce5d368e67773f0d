"""Opens an untrusted zip; its directory and entries are checked before they are read."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from service.errors import InvalidInput, TooLarge
from service.zips import ZIP_FAULTS
from storage.disk.durable import file_faults

MAX_DIRECTORY_BYTES = 2 * 2**20
"""About 20,000 entries, which take 10 MB in Python; a dataset of 40 GB has no more."""
READ_BACK = "cannot read the upload back"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_ENCRYPTED = 0x1


class _Source:
    """A file for zipfile: reads are bounded until `opened`, and I/O errors become StorageBroken."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self.opened = False

    def read(self, size: int = -1) -> bytes:
        if not self.opened and size > MAX_DIRECTORY_BYTES:
            raise TooLarge(
                f"the directory of the zip has {size} bytes, the most is {MAX_DIRECTORY_BYTES}; "
                "send it in parts"
            )
        with file_faults(READ_BACK):
            return self._file.read(size)

    def seek(self, offset: int, whence: int = 0) -> int:
        if whence == 0 and offset < 0:
            raise zipfile.BadZipFile("an entry lies before the beginning of the file")
        if whence == 2 and -offset > self._size():
            raise zipfile.BadZipFile("the file is shorter than its directory says")
        with file_faults(READ_BACK):
            return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        self._file.close()

    def _size(self) -> int:
        at = self._file.tell()
        size = self._file.seek(0, 2)
        self._file.seek(at)
        return size


@contextmanager
def open_zip(
    source: Path | IO[bytes], *, max_bytes: int, title: str, advice: str
) -> Iterator[zipfile.ZipFile]:
    """max_bytes: of all entries, unpacked. title, advice: of the error for an incomplete zip.

    Raises InvalidInput, TooLarge, and StorageBroken if our own disk fails.
    """
    with file_faults(READ_BACK):
        file = source.open("rb") if isinstance(source, Path) else source
    with file:
        bounded = _Source(file)
        try:
            archive = zipfile.ZipFile(bounded)
        except ZIP_FAULTS as error:
            raise InvalidInput.at("", f"{error}; {advice}", title=title) from error
        bounded.opened = True
        with archive:
            _check_entries(archive, max_bytes=max_bytes, title=title, advice=advice)
            yield archive


def _check_entries(archive: zipfile.ZipFile, *, max_bytes: int, title: str, advice: str) -> None:
    entries = archive.infolist()
    for entry in entries:
        if entry.compress_type not in _METHODS or entry.flag_bits & _ENCRYPTED:
            detail = f"entry {entry.filename!r} is encrypted, or packed otherwise than by deflate"
            raise InvalidInput.at("", f"{detail}; {advice}", title=title)
    total = sum(entry.file_size for entry in entries)
    if total > max_bytes:
        raise TooLarge(f"the zip holds {total} bytes unpacked, the most is {max_bytes}; send less")
