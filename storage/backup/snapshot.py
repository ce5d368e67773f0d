"""A snapshot of all stored data, which can be read while the daemon continues.

Rows name immutable files and packs that are only appended to. Hard links keep both, so that files
removed meanwhile by retention, deletion or compaction can still be read.
"""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from msgspec import Struct

from storage.backup.copies import Copies, copy_database, require_room_for_copy
from storage.blobs.files import ON_DISK, FileStore
from storage.blobs.packs import Packs, size_of
from storage.database.connection import connect_reader, sqlite3, translate
from storage.database.writer import Writer
from storage.disk.durable import file_faults
from storage.errors import StorageBroken

DATABASE = "hone.db"
_NO_LINKS = frozenset(
    {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
)


class Part(Struct, frozen=True):
    """A file of a snapshot. name: below the data folder. size_bytes: bytes after it are newer.
    source: its path, or the open file if the filesystem has no hard links.
    """

    name: str
    size_bytes: int
    source: Path | IO[bytes]

    @contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        """The file, from its beginning."""
        if not isinstance(self.source, Path):
            self.source.seek(0)
            yield self.source
            return
        with self.source.open("rb") as file:
            yield file


class Snapshot:
    """Consistent files, packs and a copy of the database; `close` frees the space.

    parts: files and packs. missing: names of missing files that rows name, and of packs that are
    shorter than they were. schema: the newest migration of the database.
    """

    def __init__(self, folder: Path, copies: Copies) -> None:
        self._folder = folder
        self._copies = copies
        self.database_path = folder / DATABASE
        self.parts: list[Part] = []
        self.missing: list[str] = []
        self.schema = ""

    @property
    def size_bytes(self) -> int:
        """Of everything."""
        return self.database_path.stat().st_size + sum(part.size_bytes for part in self.parts)

    @contextmanager
    def database(self) -> Iterator[IO[bytes]]:
        """The copy of the database. Read the parts before it: until then it receives deletions, so
        that it names no sample whose bytes were overwritten before they were read.
        """
        with self._copies.leaving(self.database_path):
            try:
                file = self.database_path.open("rb")
            except FileNotFoundError as error:
                raise StorageBroken("the copy of the database was lost; back up again") from error
            if os.name != "nt":
                self.database_path.unlink()  # no deletions reach it from now on
        with file:
            yield file

    def close(self) -> None:
        """Release everything held."""
        with self._copies.leaving(self.database_path):
            for part in self.parts:
                if not isinstance(part.source, Path):
                    part.source.close()
            shutil.rmtree(self._folder, ignore_errors=True)


def take_snapshot(
    database: Path,
    *,
    writer: Writer,
    files: FileStore,
    packs: Packs,
    copies: Copies,
    tmp_dir: Path,
) -> Snapshot:
    """Hold everything that is stored now. Raises StorageFull, StorageBroken, Busy."""
    require_room_for_copy(database)
    with file_faults("cannot begin a backup"):
        folder = Path(tempfile.mkdtemp(prefix="backup-", dir=tmp_dir))
    snapshot = Snapshot(folder, copies)
    try:
        reader = connect_reader(database)
        try:
            with copies.making():
                # Between two commits, so nothing that the rows name can be removed before it is
                # held.
                writer.write(lambda _: _hold(reader, snapshot, folder, files=files, packs=packs))
                copy_database(reader, snapshot.database_path)
                copies.enter(snapshot.database_path)
        finally:
            reader.close()
    except sqlite3.Error as error:
        snapshot.close()
        raise translate(error) from error
    except BaseException:
        snapshot.close()
        raise
    return snapshot


def _hold(
    reader: sqlite3.Connection, snapshot: Snapshot, folder: Path, *, files: FileStore, packs: Packs
) -> None:
    reader.execute("BEGIN")
    newest = "SELECT max(name) AS name FROM _sqlite_migrations"
    snapshot.schema = reader.execute(newest).fetchone()["name"]
    with file_faults("cannot begin a backup"):
        for row in reader.execute(f"{ON_DISK} ORDER BY sha256"):
            path = files.path(row["sha256"])
            name = f"files/{row['sha256'][:2]}/{row['sha256']}"
            if path.exists() and path.stat().st_size == row["size_bytes"]:
                held = _link(path, folder / row["sha256"])
                snapshot.parts.append(Part(name, row["size_bytes"], held))
            else:
                snapshot.missing.append(name)
        for row in reader.execute("SELECT * FROM packs ORDER BY model_id, pack"):
            path = packs.path(row["model_id"], row["pack"])
            name = f"packs/{row['model_id']}/{row['pack']}.pack"
            size_bytes = min(size_of(path), row["size_bytes"])
            if size_bytes < row["size_bytes"]:
                snapshot.missing.append(name)  # in part, at least
            if size_bytes:
                held = _link(path, folder / f"{row['model_id']}-{row['pack']}.pack")
                snapshot.parts.append(Part(name, size_bytes, held))


def _link(source: Path, target: Path) -> Path | IO[bytes]:
    try:
        os.link(source, target)
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return source.open("rb")
    return target
