"""Backups of small data folders, and how they are put back."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import zipfile
from collections.abc import Callable
from contextlib import closing
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

from stored import adopt, new_model

from service.backup.backup import write_backup
from service.backup.contents import open_backup, read_contents
from service.backup.restore import Restored, restore
from storage.store import Store

NOW = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
RECORD_BYTES = 16


def fill(data_dir: Path, name: str, samples: int) -> None:
    store = Store.open(data_dir)
    new = new_model(name, files={"training_model": adopt(store, b"training of " + name.encode())})
    model = store.models.add(new, adopt(store, b"base of " + name.encode()))
    with store.samples.stage(model.id, RECORD_BYTES) as staging:
        staging.add(os.urandom(RECORD_BYTES * samples), [1] * samples)
        staging.commit()
    store.close()


def back_up(data_dir: Path) -> bytes:
    store = Store.open(data_dir)
    snapshot = store.snapshot()
    archive = b"".join(write_backup(snapshot, now=NOW))
    snapshot.close()
    store.close()
    return archive


def put_back(archive: bytes, data_dir: Path, *, set_aside: bool = False) -> Restored:
    file = data_dir.with_name(f"{data_dir.name}.zip")
    file.write_bytes(archive)
    with open_backup(file) as opened:
        contents = read_contents(opened, archive_bytes=len(archive))
        return restore(
            opened, contents, data_dir, set_aside=set_aside, now=NOW, advance=lambda _: None
        )


def kept(data_dir: Path) -> tuple[list[str], list[bytes]]:
    """Names of the models, and the bytes of all samples."""
    store = Store.open(data_dir)
    try:
        models = store.models.list(10)
        contents = [
            store.samples.content(model.id, sample.id)
            for model in models
            for sample in store.samples.list(model.id, limit=1000)
        ]
        for model in models:
            for file in model.files.values():
                assert sha256(store.files.path(file.sha256).read_bytes()).hexdigest() == file.sha256
        return [model.name for model in models], contents
    finally:
        store.close()


def cut_short(database: Path) -> None:
    """Leave a change half written, with the journal that undoes it, as a power cut does.

    SQLite has such a journal only before it changes to WAL.
    """
    names = (database, database.with_name(f"{database.name}-journal"))
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        for statement in ("PRAGMA journal_mode = DELETE", "PRAGMA cache_size = 1", "BEGIN"):
            connection.execute(statement).fetchall()
        for table in ("samples", "packs", "versions", "files", "events"):
            connection.execute(f"DELETE FROM {table}")
        left = {path: path.read_bytes() for path in names}
        connection.execute("ROLLBACK")
    for path, content in left.items():
        path.write_bytes(content)
        path.chmod(0o600)


def flipped(content: bytes) -> bytes:
    return bytes([content[0] ^ 1]) + content[1:]


def rewritten(
    archive: bytes,
    change: Callable[[zipfile.ZipInfo, bytes], tuple[zipfile.ZipInfo, bytes] | None],
    *more: tuple[zipfile.ZipInfo, bytes],
) -> bytes:
    """The archive with every entry changed, left out, or added to."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(buffer, "w") as new:
        for info in old.infolist():
            if (made := change(info, old.read(info))) is not None:
                new.writestr(*made)
        for info, content in more:
            new.writestr(info, content)
    return buffer.getvalue()


def same(info: zipfile.ZipInfo, content: bytes) -> tuple[zipfile.ZipInfo, bytes]:
    return info, content


def with_manifest(archive: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    def edit(info: zipfile.ZipInfo, content: bytes) -> tuple[zipfile.ZipInfo, bytes]:
        if info.filename == "manifest.json":
            manifest = json.loads(content)
            change(manifest)
            content = json.dumps(manifest).encode()
        return info, content

    return rewritten(archive, edit)


def with_content(archive: bytes, where: str, change: Callable[[bytes], bytes]) -> bytes:
    """Another content under a true hash: the manifest agrees with what is there."""

    def edit(info: zipfile.ZipInfo, content: bytes) -> tuple[zipfile.ZipInfo, bytes]:
        return info, change(content) if info.filename.startswith(where) else content

    changed = rewritten(archive, edit)
    with zipfile.ZipFile(io.BytesIO(changed)) as opened:
        contents = {name: opened.read(name) for name in opened.namelist()}

    def agree(manifest: dict[str, Any]) -> None:
        for entry in manifest["files"]:
            content = contents[entry["name"]]
            entry |= {"size_bytes": len(content), "sha256": sha256(content).hexdigest()}

    return with_manifest(changed, agree)
