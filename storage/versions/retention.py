"""Retention: which versions of a model are deleted, and what is deleted with them."""

from __future__ import annotations

from collections.abc import Collection
from datetime import timedelta

from msgspec import Struct

from storage.blobs.files import FileStore
from storage.database.codec import load_time
from storage.database.connection import sqlite3
from storage.database.repository import writes
from storage.database.transaction import Transaction
from storage.database.writer import Writer
from storage.erasure.lineage import drop_unneeded
from storage.versions.aliases import LATEST, previous_promotion
from storage.versions.bases import Bases
from storage.versions.checkpoints import UNNEEDED
from storage.versions.version_rows import delete_version

_VERSIONS = """
SELECT version, job_id, created_at,
  coalesce((
    SELECT own.size_bytes FROM assembled_files JOIN files AS own ON own.sha256 = recipe
    WHERE assembled_files.sha256 = versions.sha256
  ), files.size_bytes) + (
    SELECT coalesce(sum(size_bytes), 0) FROM variants JOIN files USING (sha256)
    WHERE variants.model_id = versions.model_id AND variants.version = versions.version
  ) AS size_bytes,
  (SELECT group_concat(alias) FROM aliases
   WHERE aliases.model_id = versions.model_id AND aliases.version = versions.version) AS aliases
FROM versions JOIN files USING (sha256) WHERE model_id = ? ORDER BY version DESC
"""
_IN_TRAINING = "SELECT 1 FROM jobs WHERE model_id = ? AND state IN ('running', 'paused')"
_DELETE_CHECKPOINTS = f"""
DELETE FROM checkpoints WHERE job_id = ? AND NOT pinned AND {UNNEEDED} RETURNING sha256
"""  # noqa: S608 - our own


class RetentionPolicy(Struct, frozen=True):
    """The limits of a model, None for no limit; see docs/promotion.md.

    max_versions: besides those that always stay. max_bytes: of the files of all versions together.
    """

    max_versions: int | None = 20
    max_age_days: float | None = None
    max_bytes: int | None = None


class Retention:
    """Removes old versions.

    Version 1, the newest, every version that an alias names, and the target of a rollback always
    stay, whatever the limits.
    """

    def __init__(self, writer: Writer, *, files: FileStore, bases: Bases) -> None:
        self._writer = writer
        self._files = files
        self._bases = bases

    @writes
    def prune(
        self,
        transaction: Transaction,
        model_id: int,
        limits: RetentionPolicy,
        *,
        keep: Collection[int] = (),
    ) -> list[int]:
        """Remove versions beyond the limits, oldest first; returns their numbers.

        keep: versions that also stay.

        Their files, variants and checkpoints are deleted too, except pinned checkpoints and those
        that a job will start from; records of the samples that jobs used of which nothing is left;
        and former bases of which no version is left. While a job of the model is in progress,
        nothing is deleted.
        """
        if transaction.execute(_IN_TRAINING, (model_id,)).fetchone():
            return []
        rows = transaction.execute(_VERSIONS, (model_id,)).fetchall()
        gone = _beyond(transaction, model_id, rows, limits, keep=keep)
        for row in gone:
            delete_version(transaction, self._files, model_id, row["version"])
            self._files.release_deleted(transaction, _DELETE_CHECKPOINTS, (row["job_id"],))
        self._bases.drop_unused(transaction, model_id)
        drop_unneeded(transaction, model_id)
        return [row["version"] for row in gone]


def _beyond(
    transaction: Transaction,
    model_id: int,
    rows: list[sqlite3.Row],
    limits: RetentionPolicy,
    *,
    keep: Collection[int],
) -> list[sqlite3.Row]:
    """The rows, newest first, that the limits do not allow; oldest first."""
    kept = _kept_always(transaction, model_id, rows) | {*keep}
    removable = [row for row in rows if row["version"] not in kept]
    gone = set()
    if limits.max_versions is not None:
        gone |= {row["version"] for row in removable[limits.max_versions :]}
    if limits.max_age_days is not None:
        oldest = transaction.now - timedelta(days=limits.max_age_days)
        gone |= {row["version"] for row in removable if load_time(row["created_at"]) < oldest}
    if limits.max_bytes is not None:
        total = sum(row["size_bytes"] for row in rows if row["version"] not in gone)
        for row in reversed(removable):
            if total > limits.max_bytes and row["version"] not in gone:
                gone.add(row["version"])
                total -= row["size_bytes"]
    return [row for row in reversed(removable) if row["version"] in gone]


def _kept_always(
    transaction: Transaction, model_id: int, rows: list[sqlite3.Row]
) -> set[int | None]:
    if not rows:
        return set()
    kept: set[int | None] = {
        1,
        rows[0]["version"],
        *(row["version"] for row in rows if row["aliases"]),
    }
    latest = next(row["version"] for row in rows if LATEST in (row["aliases"] or "").split(","))
    previous = previous_promotion(transaction, model_id, current=latest)
    return kept if previous is None else kept | {previous}
