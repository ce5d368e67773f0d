"""Forms with many files: writes the bytes of all files into one temporary file as they arrive.

Starlette's own parser holds each small file in memory and opens a temporary file for each large
one; a form of a thousand photos would take a gigabyte, or a thousand descriptors.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO

from msgspec import Struct, field
from python_multipart.exceptions import MultipartParseError
from python_multipart.multipart import MultipartParser, parse_options_header
from starlette.requests import Request

from api.bodies.uploads import WRITE_BYTES, temporary_file, usual_type
from api.protocol import IN_MEMORY
from service.errors import InvalidInput, TooLarge
from storage.errors import pointer

MAX_FILES = 10_000
MAX_BOUNDARY_BYTES = 70
"""RFC 2046, section 5.1.1."""
MAX_FIELD_BYTES = 16 * 2**20
"""The maximum of all fields together; they are held in memory."""


class FilePart(Struct):
    """One file of a form: the position of its bytes, and its headers."""

    name: str
    filename: str
    media_type: str
    offset: int
    length: int = 0


class Form(Struct):
    """A form whose files are in `path`, one after the other."""

    path: Path
    files: list[FilePart] = field(default_factory=list)
    fields: dict[str, bytes] = field(default_factory=dict)


@asynccontextmanager
async def streamed_form(request: Request, *, folder: Path) -> AsyncIterator[Form]:
    """A multipart form in constant memory, deleted when the block ends.

    Raises InvalidInput, TooLarge.
    """
    _, options = parse_options_header(request.headers.get("content-type", ""))
    boundary = options.get(b"boundary")
    if not boundary:
        raise _bad("the Content-Type has no boundary; let the client write it")
    if len(boundary) > MAX_BOUNDARY_BYTES:
        raise _bad(
            f"the boundary has more than {MAX_BOUNDARY_BYTES} bytes; let the client write it"
        )
    with temporary_file(folder) as (file, path):
        reader = _Reader(Form(path), file, boundary)
        hold = request.scope.get(IN_MEMORY)
        async for chunk in request.stream():
            await asyncio.to_thread(reader.feed, chunk)
            if hold is not None:
                hold(reader.fields_bytes)
        await asyncio.to_thread(reader.finish)
        yield reader.form


class _Reader:
    """Takes the parser's callbacks; one part is open at a time."""

    def __init__(self, form: Form, file: IO[bytes], boundary: bytes) -> None:
        self.form = form
        self._file = file
        self._pending = bytearray()
        self._header: tuple[bytearray, bytearray] = (bytearray(), bytearray())
        self._headers: dict[bytes, bytes] = {}
        self._part: FilePart | None = None
        self._field = ""
        self._value = bytearray()
        self.fields_bytes = 0
        self._offset = 0
        self._ended = False
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._begin,
                "on_header_field": lambda data, i, j: self._header[0].extend(data[i:j]),
                "on_header_value": lambda data, i, j: self._header[1].extend(data[i:j]),
                "on_header_end": self._end_header,
                "on_headers_finished": self._open,
                "on_part_data": self._take,
                "on_part_end": self._close,
                "on_end": self._end,
            },
        )

    def feed(self, chunk: bytes) -> None:
        try:
            self._parser.write(chunk)
        except MultipartParseError as error:
            raise _bad(f"{error}; send multipart/form-data") from error
        if len(self._pending) >= WRITE_BYTES:
            self._flush()

    def finish(self) -> None:
        self._flush()
        self._file.flush()
        if not self._ended:
            raise _bad("the form ends before its last boundary; send all of it")

    def _flush(self) -> None:
        self._file.write(self._pending)
        self._pending = bytearray()

    def _begin(self) -> None:
        self._headers = {}
        self._part = None

    def _end_header(self) -> None:
        name, value = self._header
        self._headers[bytes(name).lower()] = bytes(value)
        self._header = (bytearray(), bytearray())

    def _open(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition", b""))
        name = options.get(b"name", b"").decode(errors="replace")
        if b"filename" not in options:
            if name in self.form.fields:
                raise _bad(f'the part "{name}" is there twice; send it once', pointer(name))
            self._field, self._value = name, bytearray()
            return
        if len(self.form.files) >= MAX_FILES:
            raise TooLarge(f"a form has at most {MAX_FILES} files; send the others in another")
        kind = self._headers.get(b"content-type", b"").decode(errors="replace")
        filename = options[b"filename"].decode(errors="replace")
        self._part = FilePart(name, filename, usual_type(kind), self._offset)
        self.form.files.append(self._part)

    def _take(self, data: bytes, start: int, end: int) -> None:
        if self._part is not None:
            self._pending += data[start:end]
            self._part.length += end - start
            self._offset += end - start
            return
        self.fields_bytes += end - start
        if self.fields_bytes > MAX_FIELD_BYTES:
            raise TooLarge(f"the fields of a form have at most {MAX_FIELD_BYTES} bytes")
        self._value += data[start:end]

    def _close(self) -> None:
        if self._part is None:
            self.form.fields[self._field] = bytes(self._value)

    def _end(self) -> None:
        self._ended = True


def _bad(detail: str, place: str = "") -> InvalidInput:
    return InvalidInput.at(place, detail, title="the form cannot be read")
