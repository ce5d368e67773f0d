"""Deletes samples: rows first, then all their bytes."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from contextlib import suppress

from storage.backup.copies import Copies
from storage.blobs.cache_folder import cache_paths, erase_from_caches
from storage.blobs.compaction import reclaim
from storage.blobs.packs import Packs
from storage.blobs.sharing import LockByModel
from storage.database.connection import Readers, sqlite3
from storage.database.repository import Repository, writes
from storage.database.transaction import Transaction
from storage.database.writer import Writer
from storage.erasure.deletions import Deletions
from storage.erasure.leftovers import Leftovers
from storage.errors import HoneError, StorageFull, in_words
from storage.tables.events import Events
from storage.tables.jobs import training_job

_ERASURES_AT_ONCE = 20_000
_logger = logging.getLogger(__name__)
_MODELS = "SELECT model_id FROM erasures UNION SELECT model_id FROM packs WHERE leftovers"
_PENDING = "SELECT * FROM erasures WHERE model_id = ? ORDER BY id LIMIT ?"


class Eraser(Repository):
    """Removes deleted samples from copies of the database, packs, caches and the log."""

    def __init__(self, writer: Writer, readers: Readers, packs: Packs, copies: Copies) -> None:
        self.deletions = Deletions(writer, readers)
        self.leftovers = Leftovers(writer, readers, packs, copies)
        super().__init__(writer, readers)
        self._packs = packs
        self._copies = copies
        self._events = Events(writer, readers)
        self._erasing = LockByModel(threading.Lock)

    def erase(self, model_id: int) -> None:
        """Carry out the model's recorded erasures, then free the space in its packs.

        An erasure blocked by a reader of the database stays recorded, and is repeated later.
        Waits while another thread erases for the model: each forgets only what it has overwritten.
        """
        with self._erasing.of(model_id):
            self.leftovers.remove_marked(model_id)
            while erasures := self._overwrite(model_id):
                ids = [row["sample_id"] for row in erasures]
                for folder in cache_paths(self._packs.cache_dir, model_id):
                    for cache in erase_from_caches(folder, ids):
                        reason = "it could not be read, and is made anew"
                        self._events.note_dropped(model_id, cache, reason)
                if not self._writer.truncate_wal():
                    return
                self._forget(model_id, erasures[-1]["id"])
            # Without space for a copy the packs stay unchanged until the next deletion.
            with suppress(StorageFull):
                reclaim(self._writer, self._readers, self._packs, self._copies, model_id=model_id)

    def erase_or_later(self, model_id: int, *, at_rest: bool = False) -> None:
        """As `erase`, but a failure is only logged; `erase_at_rest` tries again later.

        The rows are already deleted: an error would wrongly report that a deletion or an upload
        failed. at_rest: not while a job trains on the model.
        """
        try:
            if not at_rest or self._readers.read(training_job, model_id) is None:
                self.erase(model_id)
        except (HoneError, OSError) as error:
            told = {"model_id": model_id, "error": in_words(error)}
            _logger.error("erasure.postponed", extra={"fields": told})

    def erase_at_rest(self, model_id: int) -> None:
        """As `erase_or_later`, unless a job trains on the model: it would train on zeros."""
        self.erase_or_later(model_id, at_rest=True)

    def pending_models(self) -> list[int]:
        """Ids of models with erasures to carry out, or with marked packs."""
        rows = self._readers.all(_MODELS)
        return [row["model_id"] for row in rows]

    def _overwrite(self, model_id: int) -> list[sqlite3.Row]:
        """Zero the recorded ranges, up to a number of samples, and return them.

        Read and zeroed under one lock: recorded ranges keep `reclaim` from moving packs. Copies
        of the database come first: none may name a sample whose bytes are zeros.
        """
        with self._packs.lock(model_id):
            rows = self._readers.all(_PENDING, (model_id, _ERASURES_AT_ONCE))
            if rows:
                self._copies.delete_samples(model_id, [row["sample_id"] for row in rows])
            ranges: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
            for row in rows:
                ranges[row["pack"]].append((row["offset"], row["length"]))
            for pack, listed in ranges.items():
                self._packs.erase(model_id, pack, sorted(listed))
        return rows

    @writes
    def _forget(self, transaction: Transaction, model_id: int, last: int) -> None:
        transaction.execute("DELETE FROM erasures WHERE model_id = ? AND id <= ?", (model_id, last))
