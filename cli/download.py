"""Writes a file that the daemon sends: atomically, with its SHA-256 checked."""

from __future__ import annotations

import glob
import hashlib
import os
import re
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING

from cli.client import Client
from cli.errors import Failure
from cli.progress import Advance, bar
from storage.disk.durable import create_private

if TYPE_CHECKING:
    import httpx

LEFT_AFTER_S = 3600
"""Without a write for this long nobody writes a file: the daemon and clients wait a minute."""


def save(
    client: Client,
    path: str,
    output: Path,
    *,
    params: Mapping[str, str] | None = None,
    sha256: str | None = None,
    show: bool = True,
    private: bool = False,
) -> int:
    """Write the answer to a GET to `output`, completely or not at all.

    sha256: of the body; None to use its ETag, if there is one. show: whether to show a progress
    bar. private: for the owner alone, as samples are. Returns the number of bytes.
    """
    with unfinished(output) as partial:
        opened = create_private(partial) if private else partial.open("wb")
        with opened as file, client.stream("GET", path, params=params) as response:
            total = int(response.headers.get("Content-Length", 0))
            with bar(total, output.name, show=show) as advance:
                digest = _copy(response, file, advance)
        size_bytes = partial.stat().st_size
        wanted = sha256 or response.headers.get("ETag", "").strip('"') or digest
        if digest != wanted:
            raise Failure(
                f"{path}: the body's SHA-256 is {digest}, it should be {wanted}; "
                "nothing was written, fetch again"
            )
    return size_bytes


@contextmanager
def unfinished(output: Path) -> Iterator[Path]:
    """The path of a hidden file that becomes `output` when the block ends, and is removed if it
    fails. Removes those of killed commands, an hour old, whose names differ in digits alone.
    """
    partial = output.with_name(f".{output.name}.{os.getpid()}.partial")
    alike = re.sub(r"\d+", "*", glob.escape(output.name))
    try:
        for left in output.parent.glob(f".{alike}.*.partial"):
            with suppress(OSError):
                if left.stat().st_mtime < time.time() - LEFT_AFTER_S:
                    left.unlink()
        yield partial
        partial.replace(output)
    except OSError as error:
        raise Failure(f"cannot write {output}: {error.strerror}") from error
    finally:
        partial.unlink(missing_ok=True)


def _copy(response: httpx.Response, file: IO[bytes], advance: Advance) -> str:
    """Returns the SHA-256 of what was copied."""
    digest = hashlib.sha256()
    for chunk in response.iter_bytes():
        digest.update(chunk)
        file.write(chunk)
        advance(len(chunk))
    return digest.hexdigest()
