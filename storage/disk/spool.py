"""Temporary bytes: in memory if they are few, otherwise in a file."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from storage.disk.durable import sync_file

_MEMORY_BYTES = 4 << 20
_CHUNK_BYTES = 1 << 20


class Spool:
    """Append-only bytes, of which at most 4 MiB are held in memory."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._pieces: list[memoryview] = []
        self._file: BinaryIO | None = None
        self.size_bytes = 0
        self.path: Path | None = None

    def write(self, data: memoryview) -> None:
        """Append contiguous bytes, which must not change afterwards."""
        self.size_bytes += data.nbytes
        if self._file is None and self.size_bytes <= _MEMORY_BYTES:
            self._pieces.append(data)
            return
        if self._file is None:
            self._file = self._roll_over()
        self._file.write(data)

    def read(self, offset: int, length: int) -> Iterator[bytes | memoryview]:
        """The bytes of a range, in pieces."""
        if self._file is None:
            if length < self.size_bytes and len(self._pieces) > 1:
                self._pieces = [memoryview(b"".join(self._pieces))]
            for piece in self._pieces:
                yield piece[offset : offset + length]
            return
        self._file.seek(offset)
        while length > 0:
            chunk = self._file.read(min(length, _CHUNK_BYTES))
            yield chunk
            length -= len(chunk)

    def sync_and_close(self) -> Path:
        """Flush the temporary file to the medium, and leave it to the caller to rename."""
        if self._file is None or self.path is None:
            raise ValueError("this spool holds its bytes in memory")
        sync_file(self._file)
        self._file.close()
        return self.path

    def discard(self) -> None:
        """Drop everything; a file that was renamed stays where it is."""
        self._pieces.clear()
        if self._file is not None:
            self._file.close()
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _roll_over(self) -> BinaryIO:
        descriptor, name = tempfile.mkstemp(prefix="spool-", dir=self._folder)
        self.path = Path(name)
        file = os.fdopen(descriptor, "w+b")
        file.writelines(self._pieces)
        self._pieces.clear()
        return file
