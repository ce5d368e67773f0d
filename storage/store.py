"""The data folder: one object through which everything is kept."""

from __future__ import annotations

from pathlib import Path

from storage.aliases import Aliases
from storage.checkpoints import Checkpoints
from storage.codec import utc_now
from storage.connection import Readers, sqlite3, translate
from storage.deletion import Eraser
from storage.disk import file_faults, make_folder
from storage.events import Events
from storage.files import FileStore
from storage.jobs import Jobs
from storage.lock import DataDirLock
from storage.metrics import Metrics
from storage.models import Models
from storage.packs import Packs
from storage.policy import PolicyRows
from storage.recovery import clear_folder, finish_erasures, sweep_packs
from storage.reference import ReferenceSets
from storage.retention import Retention
from storage.samples import Samples
from storage.schema import open_database
from storage.seen import SeenSamples
from storage.triggers import Triggers
from storage.variants import Variants
from storage.versions import Versions
from storage.writer import Clock, Writer

_READERS = 4


class Store:
    """Repositories over one data folder. Every method may be called from any thread, and blocks."""

    def __init__(
        self,
        data_dir: Path,
        lock: DataDirLock,
        connection: sqlite3.Connection,
        *,
        now: Clock,
        write_queue_size: int,
    ) -> None:
        self.data_dir = data_dir
        self.database = data_dir / "hone.db"
        self.tmp_dir = data_dir / "tmp"
        self.packs_dir = data_dir / "packs"
        self.cache_dir = data_dir / "cache"
        self._lock = lock
        self._connection = connection
        self._writer = Writer(connection, now=now, queue_size=write_queue_size)
        self._readers = Readers(self.database, size=_READERS, on_broken=self._writer.refuse)
        connections = (self._writer, self._readers)
        self._packs = Packs(self.packs_dir, readers=self._readers, cache_dir=self.cache_dir)
        self.eraser = Eraser(self._writer, self._readers, self._packs)
        self.files = FileStore(data_dir / "files", writer=self._writer, readers=self._readers)
        self.events = Events(*connections)
        self.models = Models(*connections, files=self.files, packs=self._packs)
        self.samples = Samples(
            *connections, packs=self._packs, eraser=self.eraser, tmp_dir=self.tmp_dir
        )
        self.seen = SeenSamples(*connections, files=self.files)
        self.jobs = Jobs(*connections)
        self.metrics = Metrics(*connections)
        self.checkpoints = Checkpoints(*connections, files=self.files)
        self.versions = Versions(*connections, files=self.files)
        self.triggers = Triggers(*connections)
        self.policy = PolicyRows(*connections)
        self.aliases = Aliases(*connections)
        self.variants = Variants(self._writer, files=self.files)
        self.references = ReferenceSets(*connections)
        self.retention = Retention(self._writer, files=self.files)

    @classmethod
    def open(cls, data_dir: Path, *, now: Clock = utc_now, write_queue_size: int = 256) -> Store:
        """Open a data folder, or make one; what the last run left half done is undone.

        Raises DataDirLocked, UnknownSchema, StorageBroken, StorageFull.
        """
        data_dir = data_dir.absolute()
        with file_faults(f"cannot make the data folder {data_dir}"):
            for folder in (
                data_dir,
                *(data_dir / name for name in ("files", "packs", "tmp", "cache")),
            ):
                make_folder(folder)
            lock = DataDirLock(data_dir / "hone.lock")
        try:
            connection = open_database(data_dir / "hone.db", check=lock.unclean)
            store = cls(data_dir, lock, connection, now=now, write_queue_size=write_queue_size)
        except BaseException:
            lock.release(clean=False)
            raise
        try:
            store._repair()
        except BaseException:
            store._shut(clean=False)
            raise
        return store

    @property
    def broken(self) -> str | None:
        """Why nothing can be written any more until a restart, None while all is well."""
        return self._writer.broken

    def close(self) -> None:
        """Finish what is queued, fold the WAL into the database, and let go of the folder."""
        self._shut(clean=self._writer.broken is None)

    def _repair(self) -> None:
        clear_folder(self.tmp_dir)
        finish_erasures(self.eraser)
        sweep_packs(self._readers, self._packs)
        self.files.sweep()

    def _shut(self, *, clean: bool) -> None:
        self._writer.close()
        self._readers.close()
        try:
            if clean:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            clean = False
            raise translate(error) from error
        finally:
            self._connection.close()
            self._lock.release(clean=clean)
