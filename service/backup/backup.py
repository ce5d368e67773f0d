"""All stored data as one zip, in constant memory; docs/backup.md has the format."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Generator, Iterator
from datetime import datetime, timezone
from hashlib import sha256
from importlib.metadata import version
from pathlib import PurePosixPath
from typing import IO, Any

from service.zips import ForwardBuffer
from storage.backup.snapshot import DATABASE, Snapshot
from storage.database.codec import dump
from storage.errors import StorageBroken

FORMAT, VERSION = "hone-backup", 1
MANIFEST = "manifest.json"
CHUNK_BYTES = 2**20


def write_backup(snapshot: Snapshot, *, now: datetime) -> Iterator[bytes]:
    """The bytes of the zip, about a MiB at a time: files, packs, the database, the manifest.

    Raises StorageBroken if a file is shorter than its row says.
    """
    buffer = ForwardBuffer()
    listed: list[dict[str, Any]] = []
    damaged: list[str] = []
    with zipfile.ZipFile(buffer, "w", allowZip64=True) as archive:
        for part in snapshot.parts:
            with part.open() as file:
                info = _info(part.name, now)
                entry = yield from _add(archive, info, file, part.size_bytes, buffer)
            listed.append(entry)
            if part.name.startswith("files/") and entry["sha256"] != PurePosixPath(part.name).name:
                damaged.append(part.name)
        with snapshot.database() as file:
            size_bytes = os.fstat(file.fileno()).st_size
            entry = yield from _add(archive, _info(DATABASE, now), file, size_bytes, buffer)
        listed.append(entry)
        manifest = {
            "format": FORMAT,
            "version": VERSION,
            "honed": version("honed"),
            "schema": snapshot.schema,
            "created_at": now.astimezone(timezone.utc).isoformat(timespec="seconds"),
            "files": listed,
            "missing": list(snapshot.missing),
            "damaged": damaged,
        }
        archive.writestr(_info(MANIFEST, now), dump(manifest, indent=1))
    yield buffer.take()


def _add(
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    file: IO[bytes],
    size_bytes: int,
    buffer: ForwardBuffer,
) -> Generator[bytes, None, dict[str, Any]]:
    """Copy a file into the zip, yielding new bytes of that; returns its entry in the manifest."""
    info.file_size = size_bytes  # decides whether the entry needs 64-bit sizes
    digest, left = sha256(), size_bytes
    with archive.open(info, "w") as entry:
        while left:
            chunk = file.read(min(left, CHUNK_BYTES))
            if not chunk:
                raise StorageBroken(f"{info.filename} ends {left} bytes early")
            digest.update(chunk)
            entry.write(chunk)
            left -= len(chunk)
            yield buffer.take()
    return {"name": info.filename, "size_bytes": size_bytes, "sha256": digest.hexdigest()}


def _info(name: str, now: datetime) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, max(now.timetuple()[:6], (1980, 1, 1, 0, 0, 0)))
    info.external_attr = 0o100600 << 16
    return info
