"""Zips: what reading an untrusted one may raise, and one that is sent while it is written."""

from __future__ import annotations

import io
import lzma
import struct
import zipfile
import zlib
from typing import Any

ZIP_FAULTS = (
    zipfile.BadZipFile,
    zipfile.LargeZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,
    OverflowError,
    RuntimeError,
    ValueError,
)
"""Exceptions of zipfile for damaged content. OSError is not one: it concerns our own disk."""


class ForwardBuffer(io.RawIOBase):
    """Takes what a zip writes forward, until somebody takes it away."""

    def __init__(self) -> None:
        self._written = bytearray()

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._written += data
        return len(data)

    def take(self) -> bytes:
        taken, self._written = bytes(self._written), bytearray()
        return taken
