"""The data folder: one object that gives access to all stored data."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from storage.backup.copies import Copies
from storage.backup.own_backups import OwnBackups
from storage.backup.reconciling import Lost, reconcile
from storage.backup.restoring import (
    Restoration,
    newest_restoration,
    note_lost,
    open_sound_database,
    unreconciled,
)
from storage.blobs.files import FileStore
from storage.blobs.packs import Packs
from storage.database.codec import Clock, utc_now
from storage.database.connection import Readers, sqlite3, translate
from storage.database.transaction import Transaction
from storage.database.writer import Writer
from storage.disk.ballast import Ballast
from storage.disk.lock import DataDirLock
from storage.erasure.deletion import Eraser
from storage.erasure.lineage import Lineage
from storage.erasure.unlearning import Unlearning
from storage.errors import DatabaseDamaged, HoneError, StorageBroken
from storage.integrity import Integrity
from storage.samples.samples import Samples
from storage.samples.sets import BaseSets, ReferenceSets
from storage.samples.stats import SampleStats
from storage.startup import clear_folder, lock_folder, prepare_folder, sweep_packs
from storage.tables.audit import Audit
from storage.tables.events import Events
from storage.tables.follows import Follows
from storage.tables.history import History
from storage.tables.jobs import Jobs
from storage.tables.metrics import Metrics
from storage.tables.models import Models
from storage.tables.policy import DeviceHistory, PolicyRows
from storage.tables.rounds import Rounds
from storage.tables.tokens import Tokens
from storage.tables.triggers import Triggers
from storage.verification import Verification
from storage.versions.aliases import Aliases
from storage.versions.bases import Bases
from storage.versions.checkpoints import Checkpoints
from storage.versions.retention import Retention
from storage.versions.versions import Variants, Versions

if TYPE_CHECKING:
    from storage.backup.snapshot import Snapshot

_READERS = 4
_logger = logging.getLogger(__name__)


class Store:
    """Repositories over one data folder. Every method may be called from any thread, and blocks."""

    def __init__(
        self,
        data_dir: Path,
        lock: DataDirLock,
        connection: sqlite3.Connection,
        *,
        ballast: Ballast,
        now: Clock,
        write_queue_size: int,
        on_broken: Callable[[str], None],
    ) -> None:
        self.data_dir = data_dir
        self.database = data_dir / "hone.db"
        self.lost = Lost()
        self.tmp_dir = data_dir / "tmp"
        self.packs_dir = data_dir / "packs"
        self.cache_dir = data_dir / "cache"
        self._lock = lock
        self._connection = connection
        self._ballast = ballast
        self._writer = Writer(
            connection,
            now=now,
            queue_size=write_queue_size,
            path=self.database,
            ballast=ballast,
            on_broken=on_broken,
        )
        self.require_sound, self.refuse = self._writer.require_sound, self._writer.refuse
        self._readers = Readers(self.database, size=_READERS, on_broken=self._writer.refuse)
        self._writer.when_at_rest(self._readers.shrink)
        self._packs = Packs(
            self.packs_dir,
            readers=self._readers,
            cache_dir=self.cache_dir,
            require_sound=self._writer.require_sound,
        )
        self._copies = Copies(backups_dir=data_dir / "backups", broken_dir=data_dir / "broken")
        self.backups = OwnBackups(
            data_dir / "backups", database=self.database, readers=self._readers, copies=self._copies
        )
        self.files = FileStore(data_dir / "files", writer=self._writer, readers=self._readers)
        self.eraser = Eraser(self._writer, self._readers, self._packs, self._copies)
        self._make_repositories()

    def _make_repositories(self) -> None:
        connections = (self._writer, self._readers)
        self.events = Events(*connections)
        self.models = Models(*connections, files=self.files, packs=self._packs, eraser=self.eraser)
        self.samples = Samples(
            *connections, packs=self._packs, eraser=self.eraser, tmp_dir=self.tmp_dir
        )
        self.sample_stats = SampleStats(self._readers)
        self.lineage = Lineage(*connections)
        self.unlearning = Unlearning(self._readers, files=self.files, eraser=self.eraser)
        self.jobs = Jobs(*connections)
        self.metrics = Metrics(*connections)
        self.rounds = Rounds(*connections, files=self.files, data_dir=self.data_dir)
        self.checkpoints = Checkpoints(*connections, files=self.files)
        self.versions = Versions(*connections, files=self.files)
        self.triggers = Triggers(*connections)
        self.follows = Follows(*connections)
        self.policy = PolicyRows(*connections)
        self.device_history = DeviceHistory(*connections)
        self.tokens = Tokens(*connections)
        self.audit = Audit(*connections)
        self.aliases = Aliases(*connections)
        self.variants = Variants(*connections, files=self.files)
        self.bases = Bases(*connections, files=self.files, cache_dir=self.cache_dir)
        self.references = ReferenceSets(*connections)
        self.base_sets = BaseSets(*connections)
        self.retention = Retention(self._writer, files=self.files, bases=self.bases)
        self.history = History(*connections)
        self.integrity = Integrity(
            *connections,
            files=self.files,
            packs=self._packs,
            checkpoints=self.checkpoints,
            versions=self.versions,
        )
        self.verification = Verification(
            *connections,
            files=self.files,
            packs=self._packs,
            integrity=self.integrity,
            leftovers=self.eraser.leftovers,
        )

    @classmethod
    def open(
        cls,
        data_dir: Path,
        *,
        now: Clock = utc_now,
        write_queue_size: int = 256,
        is_partial: bool = False,
        on_broken: Callable[[str], None] = lambda _: None,
    ) -> Store:
        """Open or create a data folder, and finish or undo what the last run left half done.

        A damaged database is replaced by its newest backup. is_partial: files that rows name may
        be missing; those rows are deleted. on_broken: called once, from any thread, when nothing
        can be written any more. Raises AlreadyExists for a folder that holds other data,
        DataDirLocked, UnknownSchema, StorageBroken, StorageFull.
        """
        data_dir = data_dir.absolute()
        lock, ballast = lock_folder(data_dir)

        def opened(*, check: bool) -> Store:
            store = cls(
                data_dir,
                lock,
                open_sound_database(data_dir, check=check, now=now()),
                ballast=ballast,
                now=now,
                write_queue_size=write_queue_size,
                on_broken=on_broken,
            )
            store.repair(is_partial=is_partial)
            return store

        try:
            prepare_folder(data_dir, now=now())
            try:
                return opened(check=lock.unclean)
            except DatabaseDamaged:
                # The repairs read a damaged page of a database that was not checked.
                return opened(check=True)
        except BaseException:
            lock.release(clean=False)
            raise

    @property
    def broken(self) -> str | None:
        """Why nothing can be written any more until a restart, None if it can."""
        return self._writer.broken

    @property
    def restoration(self) -> Restoration | None:
        """The newest restoration of the database that has not been acknowledged."""
        return newest_restoration(self.data_dir)

    def snapshot(self) -> Snapshot:
        """Take a snapshot of all stored data. Raises Busy, StorageFull, StorageBroken."""
        from storage.backup.snapshot import take_snapshot

        return take_snapshot(
            self.database,
            writer=self._writer,
            files=self.files,
            packs=self._packs,
            copies=self._copies,
            tmp_dir=self.tmp_dir,
        )

    def pass_through_writer(self) -> None:
        """Return once the writing thread has committed an empty transaction.

        Raises Busy, StorageBroken.
        """
        self._writer.write(lambda _: None)

    def close(self) -> None:
        """Finish the queued writes, checkpoint the WAL, and release the folder.

        Raises StorageBroken, StorageFull; then the next start recovers what is in the log.
        """
        clean = False
        try:
            self.disconnect()
            clean = self._writer.broken is None
        except StorageBroken as error:
            self.refuse(error.detail)
            raise
        finally:
            self._lock.release(clean=clean)

    def repair(self, *, is_partial: bool) -> None:
        """Finish or undo what the last run left half done; disconnects if that fails."""
        try:
            self._finish_or_undo(is_partial=is_partial)
        except BaseException:
            with suppress(HoneError):
                self.disconnect()
            raise

    def _finish_or_undo(self, *, is_partial: bool) -> None:
        clear_folder(self.tmp_dir)
        if is_partial:
            self.lost = self._writer.write(
                lambda transaction: reconcile(transaction, files=self.files, packs=self._packs)
            )
        if (restoration := unreconciled(self.data_dir)) is not None:
            self._reconcile(restoration)
        self.finish_deletions()
        for model_id in self.eraser.pending_models():
            self.eraser.erase(model_id)
        self.integrity.set_lost_samples_aside()
        sweep_packs(self._readers, self._packs)
        self.files.sweep()
        self._ballast.restore()

    def finish_deletions(self) -> None:
        """Go on with deletions of many samples that were interrupted, or have failed."""
        self.models.finish_deletions()
        self.eraser.deletions.finish()

    def _reconcile(self, restoration: Restoration) -> None:
        """Make rows and files agree after an older database was restored."""
        clear_folder(self.cache_dir)

        def conclude(transaction: Transaction) -> tuple[Lost, dict[str, Any]]:
            lost = reconcile(transaction, files=self.files, packs=self._packs)
            told = {**asdict(restoration), "lost": asdict(lost)}
            transaction.event("database.restored", None, told)
            return lost, told

        lost, told = self._writer.write(conclude)
        note_lost(self.data_dir, lost)
        _logger.error("database.restored", extra={"fields": told})

    def disconnect(self) -> None:
        """Close the connections, and keep the folder's lock. Raises StorageBroken, StorageFull."""
        self._writer.close()
        self._readers.close()
        try:
            self._ballast.drop_if_low()
            if self._writer.broken is None:
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        except sqlite3.Error as error:
            raise translate(error) from error
        finally:
            self._connection.close()
        if self._writer.broken is None:
            self._ballast.restore()
