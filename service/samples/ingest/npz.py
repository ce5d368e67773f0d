"""Reads an untrusted .npz a few rows at a time.

A .npz is a zip of .npy files (NumPy's `numpy.lib.format`). Headers are read here, because numpy
parses them as Python; nothing is ever unpickled.
"""

from __future__ import annotations

import math
import re
import struct
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np

from service.errors import InvalidInput
from service.samples.ingest.zip_reader import open_zip
from service.zips import ZIP_FAULTS
from storage.arrays import NDArray
from storage.errors import pointer

MAX_ARRAYS = 1000
MAX_HEADER_BYTES = 10_000
MAX_WHOLE_BYTES = 64 * 2**20
"""An array in Fortran order is read whole; a larger one is refused."""
MAX_AXES = 32
MAX_ROW_BYTES = 2**31
MAX_TEXT_CHARACTERS = 4096
"""Each text in an array takes the space of the longest."""
_FIELD = re.compile(
    r"""\s*(['"])(?P<name>descr|fortran_order|shape)\1\s*:\s*"""
    r"""(?:(['"])(?P<dtype>[<>|=]?[A-Za-z?][0-9]{0,9}(?:\[[A-Za-z0-9]{1,9}\])?)\3"""
    r"""|(?P<flag>True|False)|\((?P<axes>[0-9,\sL]*)\))\s*(?:,|$)"""
)
_AXIS = re.compile(r"[0-9]{1,19}")


class Member:
    """One array of the archive, read from start to end. shape: batch first."""

    def __init__(self, name: str, stream: IO[bytes], size_bytes: int) -> None:
        self.name = name
        self._stream = stream
        fortran_order, self.shape, self.dtype, header_bytes = _read_header(name, stream)
        self.row_bytes = math.prod(self.shape[1:]) * self.dtype.itemsize
        self._check(size_bytes - header_bytes)
        self._whole = self._read_fortran() if fortran_order and len(self.shape) > 1 else None
        self._next = 0

    def take(self, rows: int) -> NDArray[Any]:
        """The next rows, in the file's dtype."""
        start, self._next = self._next, self._next + rows
        if self._whole is not None:
            return self._whole[start : self._next]
        data = _read_exactly(self.name, self._stream, rows * self.row_bytes)
        return np.frombuffer(data, dtype=self.dtype).reshape(rows, *self.shape[1:])

    def _check(self, data_bytes: int) -> None:
        if self.dtype.hasobject or self.dtype.kind in "VO":
            raise _bad(self.name, "holds Python objects (pickled); save plain numeric arrays")
        if not self.shape:
            raise _bad(self.name, "is a single value; every array has the batch as first axis")
        if self.dtype.itemsize == 0 or self.dtype.itemsize > 4 * MAX_TEXT_CHARACTERS:
            longest = f"texts have from 1 to {MAX_TEXT_CHARACTERS} characters"
            raise _bad(self.name, f"holds {self.dtype.str}; {longest}")
        if len(self.shape) > MAX_AXES:
            raise _bad(self.name, f"has {len(self.shape)} axes; the most is {MAX_AXES}")
        if self.row_bytes > MAX_ROW_BYTES:
            raise _bad(self.name, f"has more than {MAX_ROW_BYTES} bytes a sample")
        expected = self.shape[0] * self.row_bytes
        if expected != data_bytes:
            raise _bad(
                self.name,
                f"says {expected} bytes in its header but holds {data_bytes}; the file is damaged",
            )

    def _read_fortran(self) -> NDArray[Any]:
        total = self.shape[0] * self.row_bytes
        if total > MAX_WHOLE_BYTES:
            raise _bad(self.name, "is in Fortran order; save numpy.ascontiguousarray(…) of it")
        data = _read_exactly(self.name, self._stream, total)
        return np.frombuffer(data, dtype=self.dtype).reshape(self.shape, order="F")


@contextmanager
def open_npz(source: Path | IO[bytes], *, max_bytes: int) -> Iterator[dict[str, Member]]:
    """All arrays by name, with checked headers. max_bytes: of all arrays, unpacked.

    Raises InvalidInput for a damaged or pickled array, TooLarge.
    """
    with open_zip(
        source,
        max_bytes=max_bytes,
        title="the body is not a whole .npz file",
        advice="write it with numpy.savez and send all of it",
    ) as archive:
        entries = archive.infolist()
        if len(entries) > MAX_ARRAYS:
            raise _bad(entries[-1].filename, f"is one of more than {MAX_ARRAYS}; send fewer")
        members: dict[str, Member] = {}
        for entry in entries:
            name = entry.filename.removesuffix(".npy")
            if name == entry.filename or name in members:
                raise _bad(entry.filename, "is not an array of its own; write with numpy.savez")
            members[name] = Member(name, _open(archive, entry), entry.file_size)
        yield members


def _open(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> IO[bytes]:
    try:
        return archive.open(entry)
    except ZIP_FAULTS as error:
        raise _bad(entry.filename.removesuffix(".npy"), f"cannot be read: {error}") from error


def _read_header(name: str, stream: IO[bytes]) -> tuple[bool, tuple[int, ...], np.dtype[Any], int]:
    """Fortran order, shape, dtype, and the number of bytes before the data."""
    npy = np.lib.format
    magic = _read_exactly(name, stream, npy.MAGIC_LEN)
    if magic[:6] != npy.MAGIC_PREFIX or magic[6] not in (1, 2):
        raise _bad(name, "is not a .npy array of version 1 or 2")
    width, code = (2, "<H") if magic[6] == 1 else (4, "<I")
    length = struct.unpack(code, _read_exactly(name, stream, width))[0]
    if length > MAX_HEADER_BYTES:
        raise _bad(name, f"has a header of {length} bytes; the most is {MAX_HEADER_BYTES}")
    text = _read_exactly(name, stream, length).decode("latin-1").strip()
    return *_parse_header(name, text), npy.MAGIC_LEN + width + length


def _parse_header(name: str, text: str) -> tuple[bool, tuple[int, ...], np.dtype[Any]]:
    fields: dict[str, re.Match[str]] = {}
    at, end = 1, len(text) - 1
    while text.startswith("{") and (match := _FIELD.match(text, at, end)):
        fields[match["name"]] = match
        at = match.end()
    dtype, order, shape = (fields.get(key) for key in ("descr", "fortran_order", "shape"))
    whole = text.endswith("}") and not text[at:end].strip()
    if not (whole and dtype and dtype["dtype"] and order and order["flag"]) or not (
        shape and shape["axes"] is not None
    ):
        detail = "one plain dtype, fortran_order and shape are expected"
        raise _bad(name, f"has a header that cannot be read: {detail}; save plain numeric arrays")
    try:
        kind = np.dtype(dtype["dtype"])
    except TypeError as error:
        raise _bad(name, f"has a header that cannot be read: {error}") from error
    axes = tuple(int(axis) for axis in _AXIS.findall(shape["axes"]))
    return order["flag"] == "True", axes, kind


def _read_exactly(name: str, stream: IO[bytes], size: int) -> bytes:
    try:
        data = stream.read(size)
    except ZIP_FAULTS as error:
        raise _bad(name, f"cannot be read: {error}") from error
    if len(data) != size:
        raise _bad(name, "ends too early; the file is truncated")
    return data


def _bad(name: str, detail: str) -> InvalidInput:
    title = f"array {name!r} of the .npz file cannot be used"
    return InvalidInput.at(pointer(name), f"array {name!r} {detail}", title=title)
