"""Reads an untrusted .npz a few rows at a time.

A .npz is a zip of .npy files (NumPy's `numpy.lib.format`). Sizes and headers are checked before
anything is read; nothing is ever unpickled.
"""

from __future__ import annotations

import io
import math
import struct
import zipfile
import zlib
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from service.errors import InvalidInput, TooLarge
from storage.errors import Problem

MAX_HEADER_BYTES = 10_000
MAX_WHOLE_BYTES = 64 * 2**20
"""An array in Fortran order is read whole; a larger one is refused."""
READ_FAULTS = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError)


class Member:
    """One array of the archive, read forward. shape: batch first."""

    def __init__(self, name: str, stream: IO[bytes], size_bytes: int) -> None:
        self.name = name
        self._stream = stream
        fortran_order, self.shape, self.dtype, header_bytes = _read_header(name, stream)
        self._row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        self._check(size_bytes - header_bytes)
        self._whole = self._read_fortran() if fortran_order and len(self.shape) > 1 else None
        self._next = 0

    def take(self, rows: int) -> NDArray[Any]:
        """The next rows, as they are in the file."""
        start, self._next = self._next, self._next + rows
        if self._whole is not None:
            return self._whole[start : self._next]
        data = _read_exactly(self.name, self._stream, rows * self._row_bytes)
        return np.frombuffer(data, dtype=self.dtype).reshape(rows, *self.shape[1:])

    def _check(self, data_bytes: int) -> None:
        if self.dtype.hasobject or self.dtype.kind in "VO":
            raise _bad(self.name, "holds Python objects (pickled); save plain numeric arrays")
        if not self.shape:
            raise _bad(self.name, "is a single value; every array has the batch as first axis")
        expected = self.shape[0] * self._row_bytes
        if expected != data_bytes:
            raise _bad(
                self.name,
                f"says {expected} bytes in its header but holds {data_bytes}; the file is damaged",
            )

    def _read_fortran(self) -> NDArray[Any]:
        total = self.shape[0] * self._row_bytes
        if total > MAX_WHOLE_BYTES:
            raise _bad(self.name, "is in Fortran order; save numpy.ascontiguousarray(…) of it")
        data = _read_exactly(self.name, self._stream, total)
        return np.frombuffer(data, dtype=self.dtype).reshape(self.shape, order="F")


class NpzReader:
    """An open archive. Raises InvalidInput for a damaged, pickled or outsized one."""

    def __init__(self, path: Path | IO[bytes], *, max_bytes: int) -> None:
        try:
            self._archive = zipfile.ZipFile(path)
        except READ_FAULTS as error:
            raise InvalidInput(
                "the body is not a whole .npz file",
                problems=[Problem("", f"{error}; write it with numpy.savez and send all of it")],
            ) from error
        self._infos = self._archive.infolist()
        total = sum(info.file_size for info in self._infos)
        if total > max_bytes:
            self._archive.close()
            raise TooLarge(f"the arrays hold {total} bytes, the most is {max_bytes}; send less")

    def __enter__(self) -> NpzReader:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._archive.close()

    def members(self) -> dict[str, Member]:
        """Every array by its name, headers read and checked."""
        found: dict[str, Member] = {}
        for info in self._infos:
            name = info.filename.removesuffix(".npy")
            if name == info.filename or name in found:
                raise _bad(info.filename, "is not an array of its own; write with numpy.savez")
            try:
                stream = self._archive.open(info)
            except READ_FAULTS as error:
                raise _bad(name, f"cannot be read: {error}") from error
            found[name] = Member(name, stream, info.file_size)
        return found


def _read_header(name: str, stream: IO[bytes]) -> tuple[bool, tuple[int, ...], np.dtype[Any], int]:
    magic = _read_exactly(name, stream, npy.MAGIC_LEN)
    if magic[:6] != npy.MAGIC_PREFIX or magic[6] not in (1, 2):
        raise _bad(name, "is not a .npy array of version 1 or 2")
    width, code = (2, "<H") if magic[6] == 1 else (4, "<I")
    prefix = _read_exactly(name, stream, width)
    length = struct.unpack(code, prefix)[0]
    if length > MAX_HEADER_BYTES:
        raise _bad(name, f"has a header of {length} bytes; the most is {MAX_HEADER_BYTES}")
    text = io.BytesIO(prefix + _read_exactly(name, stream, length))
    read = npy.read_array_header_1_0 if magic[6] == 1 else npy.read_array_header_2_0
    try:
        shape, fortran_order, dtype = read(text, max_header_size=MAX_HEADER_BYTES)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError) as error:
        raise _bad(name, f"has a header that cannot be read: {error}") from error
    return fortran_order, shape, dtype, npy.MAGIC_LEN + width + length


def _read_exactly(name: str, stream: IO[bytes], size: int) -> bytes:
    try:
        data = stream.read(size)
    except READ_FAULTS as error:
        raise _bad(name, f"cannot be read: {error}") from error
    if len(data) != size:
        raise _bad(name, "ends too early; the file is truncated")
    return data


def _bad(name: str, detail: str) -> InvalidInput:
    return InvalidInput(
        f"array {name!r} of the .npz file cannot be used",
        problems=[Problem(f"/{name}", f"array {name!r} {detail}")],
    )
