"""All stored data as one zip, in constant memory; docs/backup.md has the format."""

from __future__ import annotations

import os
import zipfile
from collections.abc import Iterator
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
            entry = _Entry(archive, part.name, part.size_bytes, now=now)
            with part.open() as file:
                yield from entry.write(file, buffer)
            listed.append(entry.told())
            if part.name.startswith("files/") and entry.sha256 != PurePosixPath(part.name).name:
                damaged.append(part.name)
        with snapshot.database() as file:
            entry = _Entry(archive, DATABASE, os.fstat(file.fileno()).st_size, now=now)
            yield from entry.write(file, buffer)
        listed.append(entry.told())
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


class _Entry:
    """A file that is being added to the zip."""

    def __init__(
        self, archive: zipfile.ZipFile, name: str, size_bytes: int, *, now: datetime
    ) -> None:
        self._archive = archive
        self._size_bytes = size_bytes
        self._info = _info(name, now)
        self._info.file_size = size_bytes  # decides whether the entry needs 64-bit sizes
        self._digest = sha256()

    @property
    def sha256(self) -> str:
        """SHA-256 of the bytes written."""
        return self._digest.hexdigest()

    def write(self, file: IO[bytes], buffer: ForwardBuffer) -> Iterator[bytes]:
        """Copy the file into the zip, and yield the zip's new bytes."""
        left = self._size_bytes
        with self._archive.open(self._info, "w") as entry:
            while left:
                chunk = file.read(min(left, CHUNK_BYTES))
                if not chunk:
                    raise StorageBroken(f"{self._info.filename} ends {left} bytes early")
                self._digest.update(chunk)
                entry.write(chunk)
                left -= len(chunk)
                yield buffer.take()

    def told(self) -> dict[str, Any]:
        """The file's entry in the manifest."""
        return {
            "name": self._info.filename,
            "size_bytes": self._size_bytes,
            "sha256": self.sha256,
        }


def _info(name: str, now: datetime) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name, max(now.timetuple()[:6], (1980, 1, 1, 0, 0, 0)))
    info.external_attr = 0o100600 << 16
    return info
