"""Immutable files, named by the SHA-256 of their content.

A file comes first and its row after it, so a crash in between leaves a file without a row,
which the sweep at start-up removes, and never a row without a file.
"""

from __future__ import annotations

import os
import re
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

from storage.blobs.assembled import AssembledFiles, Parts
from storage.database.connection import Parameters, Readers
from storage.database.transaction import Transaction
from storage.database.writer import Writer
from storage.disk.digest import sha256_of
from storage.disk.durable import file_faults, make_folder, publish, sync_file
from storage.errors import HoneError, NotFound
from storage.records.models import FileRecord
from storage.records.versions import FileRecipe

_SHA256 = re.compile(r"[0-9a-f]{64}")


class FileStore:
    """Files below `folder`, as ab/abcdef…"""

    def __init__(self, folder: Path, *, writer: Writer, readers: Readers) -> None:
        self.folder = folder
        self._writer = writer
        self._readers = readers
        # Adopted but not yet named by a row: the last row with this content may be deleted first.
        self._awaited: Counter[str] = Counter()
        self._lock = threading.Lock()
        self._checked: dict[str, tuple[int, int, int]] = {}
        self.assembled = AssembledFiles(folder / "whole", path_of=self.path, readers=readers)

    def path(self, sha256: str) -> Path:
        """The file's path. Raises ValueError if sha256 is not 64 lower-case hex digits."""
        if not _SHA256.fullmatch(sha256):
            raise ValueError(f"{sha256!r} is not a SHA-256 in lower-case hex")
        return self.folder / sha256[:2] / sha256

    def is_whole(self, sha256: str) -> bool:
        """Whether the file's bytes are those that were stored; read once, until it changes.

        Checks the parts of a file that is stored as such. Raises FileNotFoundError, StorageBroken.
        """
        path = self.path(sha256)
        try:
            status = path.stat()
        except FileNotFoundError:
            parts = self.assembled.parts(sha256)
            if parts is None:
                raise
            return self.is_whole(parts.base) and self.is_whole(parts.recipe)
        mark = (status.st_ino, status.st_size, status.st_mtime_ns)
        if self._checked.get(sha256) == mark:
            return True
        with file_faults(f"cannot read {path.name}"):
            is_whole = sha256_of(path) == sha256
        if is_whole:
            self._checked[sha256] = mark
        return is_whole

    def whole_path(self, sha256: str) -> Path:
        """The file's path, assembled if necessary. Raises StorageBroken, StorageFull."""
        path = self.path(sha256)
        if path.exists():
            return path
        parts = self.assembled.parts(sha256)
        return path if parts is None else self.assembled.path(sha256, parts)

    def forget_checked(self, sha256: str) -> None:
        """Make the next integrity check read the file again."""
        self._checked.pop(sha256, None)

    def adopt(self, path: Path) -> FileRecord:
        """Move a file from the same filesystem into the store, durably.

        Content that exists already is stored once, and repaired if it was damaged. Raises
        StorageFull, StorageBroken.
        """
        with file_faults(f"cannot store {path.name}"):
            record = _hash_and_sync(path)
            destination = self.path(record.sha256)
            with self._lock:
                self._awaited[record.sha256] += 1
                if destination.exists() and self.is_whole(record.sha256):
                    path.unlink()
                    return record
                make_folder(destination.parent)
                publish(path, destination)
        return record

    @contextmanager
    def adopting(self) -> Iterator[Callable[[Path], FileRecord]]:
        """`adopt` for files that rows name before the block ends; removes them if it fails."""
        adopted: list[FileRecord] = []

        def adopt(path: Path) -> FileRecord:
            adopted.append(self.adopt(path))
            return adopted[-1]

        try:
            yield adopt
        except BaseException:
            with suppress(HoneError):  # the next start removes them; the block's error matters more
                self._writer.write(partial(self._abandon, records=adopted))
            raise

    def _abandon(self, transaction: Transaction, records: Iterable[FileRecord]) -> None:
        """Remove adopted files that no row names or is about to name."""
        hashes = [record.sha256 for record in records]
        self._arrived(hashes)
        query = "SELECT 1 FROM files WHERE sha256 = ?"
        unnamed = [each for each in hashes if not transaction.execute(query, (each,)).fetchone()]
        self._remove(unnamed)

    def sweep(self) -> int:
        """Remove files that no row names or is about to name. Returns their number."""
        return self._writer.write(self._sweep)

    def _sweep(self, transaction: Transaction) -> int:
        named = {row["sha256"] for row in transaction.execute("SELECT sha256 FROM files")}
        with file_faults("cannot sweep files"), self._lock:
            orphans = [
                path
                for path in self.folder.glob("*/*")
                if path.name not in named and not self._awaited[path.name]
            ]
            for path in orphans:
                path.unlink()
        return len(orphans)

    def reference(self, transaction: Transaction, records: Iterable[FileRecord]) -> None:
        """Write the rows of adopted files. Raises NotFound if a file is not in the store."""
        distinct = {record.sha256: record for record in records}
        for record in distinct.values():
            if not self.path(record.sha256).exists():
                raise NotFound(f"file {record.sha256} is not in the store; adopt it first")
            transaction.execute(
                "INSERT INTO files VALUES (?, ?) ON CONFLICT DO NOTHING",
                (record.sha256, record.size_bytes),
            )
            transaction.execute("DELETE FROM damaged_files WHERE sha256 = ?", (record.sha256,))
        transaction.after_commit(lambda: self._arrived(distinct))

    def keep_as_steps(self, transaction: Transaction, sha256: str, recipe: FileRecipe) -> None:
        """Replace a file that has a row by the steps that assemble it."""
        self.reference(transaction, [recipe.file])
        if self.assembled.parts(sha256, within=transaction) is None:
            self.assembled.add(transaction, sha256, Parts(recipe.base, recipe.file.sha256))
        self.release(transaction, [recipe.file.sha256])  # if other steps are stored already
        transaction.after_commit(lambda: self._remove([sha256]))

    def release(self, transaction: Transaction, hashes: Iterable[str]) -> None:
        """Remove the rows of files that nothing refers to any more and, after commit, the files."""
        gone, left = [], sorted(set(hashes))
        while left:
            sha256 = left.pop(0)
            parts = self.assembled.parts(sha256, within=transaction)
            if transaction.execute(_DELETE_UNREFERENCED, {"sha256": sha256}).rowcount:
                gone.append(sha256)
                left += [] if parts is None else [parts.base, parts.recipe]
        if gone:
            transaction.after_commit(lambda: self._remove(gone))

    def release_deleted(
        self, transaction: Transaction, delete: str, parameters: Parameters
    ) -> None:
        """Run a `DELETE … RETURNING sha256`, and `release` the files that the rows named."""
        rows = transaction.execute(delete, parameters).fetchall()
        self.release(transaction, [row["sha256"] for row in rows if row["sha256"] is not None])

    def _arrived(self, hashes: Iterable[str]) -> None:
        with self._lock:
            self._awaited -= Counter(list(hashes))

    def _remove(self, hashes: Iterable[str]) -> None:
        with self._lock:
            for sha256 in hashes:
                if not self._awaited[sha256]:
                    self.path(sha256).unlink(missing_ok=True)
                    self.assembled.forget(sha256)
                    self.forget_checked(sha256)


ON_DISK = """
SELECT * FROM files WHERE sha256 NOT IN (SELECT sha256 FROM assembled_files)
"""
"""Rows of the files that are not assembled from parts."""
_DELETE_UNREFERENCED = """
DELETE FROM files WHERE sha256 = :sha256
  AND NOT EXISTS (SELECT 1 FROM base_files WHERE sha256 = :sha256)
  AND NOT EXISTS (SELECT 1 FROM checkpoints WHERE sha256 = :sha256)
  AND NOT EXISTS (SELECT 1 FROM versions WHERE sha256 = :sha256)
  AND NOT EXISTS (SELECT 1 FROM variants WHERE sha256 = :sha256)
  AND NOT EXISTS (SELECT 1 FROM job_files WHERE sha256 = :sha256)
  AND NOT EXISTS (SELECT 1 FROM assembled_files WHERE base = :sha256 OR recipe = :sha256)
"""


def _hash_and_sync(path: Path) -> FileRecord:
    with path.open("r+b") as file:
        record = FileRecord(sha256_of(path), os.fstat(file.fileno()).st_size)
        sync_file(file)
        if os.name != "nt":
            os.fchmod(file.fileno(), 0o600)
    return record
