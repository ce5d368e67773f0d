"""Immutable files over HTTP, sent by the kernel: strong ETag (SHA-256), 304, Range, digests."""

from __future__ import annotations

import asyncio
import os
import re
from base64 import b64encode
from collections.abc import Callable, Mapping
from datetime import datetime, timezone
from email.utils import format_datetime
from functools import partial
from pathlib import Path
from typing import IO, Literal

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from api.errors import problem
from api.protocol import ZERO_COPY
from storage.errors import NotFound, StorageBroken
from storage.records.models import FileRecord
from storage.store import Store

IMMUTABLE = "private, max-age=31536000, immutable"
REVALIDATE = "private, no-cache"
SMALL_BYTES = 64 * 2**10
"""Up to this size a file is read and sent at once; a larger one is sent by the kernel."""
ONE_RANGE = re.compile(r"\s*bytes\s*=\s*(\d*)\s*-\s*(\d*)\s*", re.IGNORECASE)
MAX_DIGITS = 18
"""The longest position in a file; Python converts at most 4,300 digits."""

Span = tuple[int, int]
"""The first byte, and the one after the last."""


def is_known(request: Request, tag: str) -> bool:
    """Whether `If-None-Match` names this tag (RFC 9110, section 13.1.2: weak comparison)."""
    tags = ",".join(request.headers.getlist("if-none-match"))
    return tags.strip() == "*" or any(
        candidate.strip().removeprefix("W/") == tag for candidate in tags.split(",")
    )


def file_answer(
    request: Request,
    store: Store,
    file: FileRecord,
    *,
    media_type: str,
    filename: str,
    cache_control: str = IMMUTABLE,
    created_at: datetime | None = None,
) -> Response:
    """304 if the client has the file, else the file or the requested range.

    created_at: sent as Last-Modified. `If-Modified-Since` is ignored: `latest` may move to an older
    version.
    """
    tag = f'"{file.sha256}"'
    headers = {"ETag": tag, "Cache-Control": cache_control}
    if is_known(request, tag):
        return Response(status_code=304, headers=headers)
    headers |= {
        "Accept-Ranges": "bytes",
        "Content-Type": media_type,
        "Content-Disposition": f'attachment; filename="{filename}"',
        # RFC 9530
        "Repr-Digest": f"sha-256=:{b64encode(bytes.fromhex(file.sha256)).decode()}:",
    }
    if created_at is not None:
        modified = created_at.astimezone(timezone.utc).replace(microsecond=0)
        headers["Last-Modified"] = format_datetime(modified, usegmt=True)
    span = _span(request, headers, file.size_bytes)
    if span == "unsatisfiable":
        where = {"Content-Range": f"bytes */{file.size_bytes}"}
        detail = f"the file has {file.size_bytes} bytes; ask for some of them"
        return problem("range_not_satisfiable", detail, headers=where)
    start, end = span or (0, file.size_bytes)
    headers["Content-Length"] = str(end - start)
    if span is None:
        headers["Content-Digest"] = headers["Repr-Digest"]
    else:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{file.size_bytes}"
    find = partial(store.integrity.file, file.sha256)
    return StoredFile(find, (start, end), headers=headers, status_code=206 if span else 200)


class StoredFile(Response):
    """A span of a stored file.

    find: returns the path. Raises NotFound if the file was removed, Damaged.
    """

    def __init__(
        self,
        find: Callable[[], Path],
        span: Span,
        *,
        headers: Mapping[str, str],
        status_code: int,
    ) -> None:
        self._find = find
        self._span = span
        self.background = None
        self.status_code = status_code
        self.init_headers(headers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a small file from memory, a large one by the server."""
        del scope, receive
        start, end = self._span
        begin = {"type": "http.response.start", "status": self.status_code}
        file, content = await asyncio.to_thread(_open, self._find, start, end)
        try:
            await send({**begin, "headers": self.raw_headers})
            if content is None:
                slice_ = {"file": file, "offset": start, "count": end - start}
                await send({"type": ZERO_COPY, **slice_})
            await send({"type": "http.response.body", "body": content or b""})
        finally:
            file.close()


def _open(find: Callable[[], Path], start: int, end: int) -> tuple[IO[bytes], bytes | None]:
    """The file, positioned at `start`, and its bytes if they are few."""
    try:
        file = find().open("rb", buffering=0)
    except FileNotFoundError as error:
        raise NotFound("the file has just been removed; request a newer version") from error
    if end - start <= SMALL_BYTES:
        file.seek(start)
        content = file.read(end - start)
        if lost := end - start - len(content):
            file.close()
            raise StorageBroken(f"a stored file ends {lost} bytes early; restore a backup")
        return file, content
    if hasattr(os, "posix_fadvise"):
        os.posix_fadvise(file.fileno(), start, end - start, os.POSIX_FADV_SEQUENTIAL)
    file.seek(start)
    return file, None


def _span(
    request: Request, headers: Mapping[str, str], size: int
) -> Span | Literal["unsatisfiable"] | None:
    """The one requested range (RFC 9110, section 14); None for the whole file."""
    asked = ONE_RANGE.fullmatch(request.headers.get("range", ""))
    condition = request.headers.get("if-range")
    if asked is None or asked[1] + asked[2] == "":
        return None
    if condition is not None and condition not in (headers["ETag"], headers.get("Last-Modified")):
        return None
    if not asked[1]:
        start, end = max(0, size - _position(asked[2])), size
    else:
        start = _position(asked[1])
        end = min(size, _position(asked[2]) + 1) if asked[2] else size
        if asked[2] and _position(asked[2]) < start:
            return None
    return (start, end) if start < end else "unsatisfiable"


def _position(digits: str) -> int:
    """The position, or one beyond the end of every file if it has too many digits."""
    return int(digits) if len(digits) <= MAX_DIGITS else 10**MAX_DIGITS
