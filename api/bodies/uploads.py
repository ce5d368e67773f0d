"""Bodies of requests: small ones into memory, large ones into a file, both bounded."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import IO, Any, TypeVar

from pydantic import BaseModel, ValidationError
from starlette.datastructures import FormData, UploadFile
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from api.errors import problem, problems_of
from api.protocol import IN_MEMORY, ON_DISK, announced_bytes
from service.daemon import Daemon
from service.errors import InvalidInput, TooLarge, UnsupportedMediaType
from service.samples.disk_reserve import require_room
from service.samples.ingest.json_value import read_json

T = TypeVar("T", bound=BaseModel)

WRITE_BYTES = 2**20
MAX_PART_BYTES = 2**20
"""Of a form's part that holds JSON; Starlette bounds those that are no files by as much."""

CHARSET = re.compile(
    r"""^(?:text/|application/(?:x-)?(?:nd)?json).*;\s*charset\s*=\s*["']?([^\s;"']+)""",
    re.IGNORECASE,
)
"""Of a text, in its Content-Type."""
UTF_8 = ("utf-8", "utf8", "us-ascii", "ascii")
"""ASCII is UTF-8, too."""

SAME = {
    **dict.fromkeys(("image/jpg", "image/pjpeg"), "image/jpeg"),
    **dict.fromkeys(("audio/x-wav", "audio/wave", "audio/vnd.wave"), "audio/wav"),
    "audio/x-flac": "audio/flac",
    **dict.fromkeys(
        ("application/x-ndjson", "application/ndjson", "application/x-jsonlines"),
        "application/jsonl",
    ),
}
"""Other names of media types."""


class BodyLimit:
    """ASGI middleware that limits request bodies to max_bytes."""

    def __init__(self, app: ASGIApp, *, max_bytes: int) -> None:
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a body whose announced length is too large; cut off one that grows too large,
        or leaves the disk less than its reserve.
        """
        if announced_bytes(scope) > self._max_bytes:
            await problem("too_large", self._detail())(scope, receive, send)
            return
        seen, next_look = 0, WRITE_BYTES

        async def counted() -> Message:
            nonlocal seen, next_look
            message = await receive()
            seen += len(message.get("body", b""))
            if seen > self._max_bytes:
                raise TooLarge(self._detail())
            if seen > next_look and (require := scope.get(ON_DISK)) is not None:
                next_look = seen + WRITE_BYTES
                require()
            return message

        await self._app(scope, counted, send)

    def _detail(self) -> str:
        return f"a body has at most {self._max_bytes} bytes (HONED_MAX_UPLOAD_BYTES); send less"


def media_type(request: Request) -> str:
    """The body's media type by its usual name, without parameters."""
    return usual_type(request.headers.get("content-type", ""))


def usual_type(content_type: str) -> str:
    """The media type that a header names, in lower case, without parameters."""
    named = content_type.partition(";")[0].strip().lower()
    return SAME.get(named, named)


def require_plain(request: Request) -> None:
    """Raises UnsupportedMediaType for a body that its sender has compressed, or a text that is said
    to be in another charset than UTF-8: UTF-16 may be read as UTF-8 with zeros in it.
    """
    coding = request.headers.get("content-encoding") or "identity"
    if coding.lower() != "identity":
        raise UnsupportedMediaType(f"the body is compressed ({coding}); send it uncompressed")
    said = CHARSET.search(request.headers.get("content-type", ""))
    if said and said[1].lower() not in UTF_8:
        raise UnsupportedMediaType(f"the body is in the charset {said[1]}; send UTF-8")


def require_media_type(request: Request, *allowed: str) -> str:
    """The body's media type. Raises UnsupportedMediaType unless it is one of `allowed`."""
    require_plain(request)
    body_type = media_type(request)
    if body_type not in allowed:
        raise UnsupportedMediaType(
            f"the body is {body_type or 'of no type'}; set Content-Type to {' or '.join(allowed)}"
        )
    return body_type


def require_room_for(request: Request, daemon: Daemon) -> None:
    """Raises StorageFull unless the disk has room for the body, before that is read.

    Reading it raises StorageFull once there is none: others write too, and not every length is
    announced. Not in a thread: the system knows the free space without asking the disk.
    """
    settings = daemon.settings
    require = partial(require_room, settings.data_dir, reserve_bytes=settings.disk_reserve_bytes)
    require(incoming_bytes=announced_bytes(request.scope))
    request.scope[ON_DISK] = require


async def read_small(request: Request, *, max_bytes: int, refusal: str) -> bytes:
    """The whole body. refusal: the message of TooLarge, with the placeholder `{max_bytes}`."""
    if announced_bytes(request.scope) > max_bytes:
        raise TooLarge(refusal.format(max_bytes=max_bytes))
    body, hold = bytearray(), request.scope.get(IN_MEMORY)
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise TooLarge(refusal.format(max_bytes=max_bytes))
        if hold is not None:
            hold(len(body))
    return bytes(body)


@asynccontextmanager
async def spooled(request: Request, *, folder: Path) -> AsyncIterator[Path]:
    """The body in a temporary file, deleted when the block ends."""
    with temporary_file(folder) as (file, path):
        writing: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        writing.set_result(None)
        try:
            async for chunks in _gathered(request.stream()):
                await writing
                writing = asyncio.ensure_future(asyncio.to_thread(file.writelines, chunks))
        finally:
            await writing
        file.flush()
        yield path


async def _gathered(stream: AsyncIterator[bytes]) -> AsyncIterator[list[bytes]]:
    """The stream in batches of WRITE_BYTES or more: one is written while the next arrives."""
    chunks: list[bytes] = []
    size = 0
    async for chunk in stream:
        chunks.append(chunk)
        size += len(chunk)
        if size >= WRITE_BYTES:
            yield chunks
            chunks, size = [], 0
    yield chunks


@asynccontextmanager
async def spooled_part(upload: UploadFile, *, folder: Path) -> AsyncIterator[Path]:
    """One file of a form in a temporary file, deleted when the block ends."""
    with temporary_file(folder) as (file, path):
        await asyncio.to_thread(shutil.copyfileobj, upload.file, file, WRITE_BYTES)
        file.flush()
        yield path


async def json_part(form: FormData, name: str, kind: type[T]) -> T | None:
    """The part of a form that holds JSON, None if it is missing. Raises InvalidInput."""
    wrong = f"the {name} is wrong"
    parts = form.getlist(name)
    if not parts:
        return None
    if len(parts) > 1:
        detail = f'the part "{name}" is there {len(parts)} times; send it once'
        raise InvalidInput.at(f"/{name}", detail, title=wrong)
    (part,) = parts
    if isinstance(part, UploadFile) and (part.size or 0) > MAX_PART_BYTES:
        raise TooLarge(f"the {name} has at most {MAX_PART_BYTES} bytes of JSON; send less")
    try:
        parsed = read_json(await part.read() if isinstance(part, UploadFile) else part)
        return kind.model_validate(parsed)
    except ValidationError as error:
        listed = problems_of(error.errors(), parsed, kind=kind, prefix=f"/{name}")
        raise InvalidInput(wrong, problems=listed) from error
    except ValueError as error:
        raise InvalidInput.at(f"/{name}", f"not JSON: {error}", title=wrong) from error


@contextmanager
def temporary_file(folder: Path) -> Iterator[tuple[IO[bytes], Path]]:
    """An open file and its path, deleted when the block ends; the path may be opened again."""
    descriptor, name = tempfile.mkstemp(prefix="upload-", dir=folder)
    try:
        with os.fdopen(descriptor, "wb") as file:
            yield file, Path(name)
    finally:
        Path(name).unlink(missing_ok=True)
