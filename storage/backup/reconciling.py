"""Deletes rows whose bytes are missing, after an older database was restored and in a repair.

Files newer than the database have no row, and are removed at every start. Older ones may have been
removed since, while their row is now back.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from storage.blobs.files import ON_DISK, FileStore
from storage.blobs.packs import Packs, size_of
from storage.database.transaction import Transaction

_SHORT_SAMPLES = """
DELETE FROM samples WHERE model_id = :model_id AND pack = :pack AND offset + length > :size
"""
_SHORT_PACK = "UPDATE packs SET size_bytes = :size WHERE model_id = :model_id AND pack = :pack"
# Samples of the newer database may have left bytes; and erasures of this one may name packs whose
# numbers others have now.
_MARK = (
    "DELETE FROM erasures",
    "UPDATE packs SET leftovers = 1",
)
_NEWEST_PROMOTED = """
SELECT version FROM promotions JOIN versions USING (model_id, version)
WHERE model_id = :model_id AND sha256 NOT IN (SELECT sha256 FROM gone)
ORDER BY promotions.id DESC LIMIT 1
"""
_LOST_VERSIONS = """
SELECT model_id, version FROM versions
WHERE version > 1 AND sha256 IN (SELECT sha256 FROM gone)
"""
_MOVE_ALIASES = (
    "UPDATE aliases SET version = :heir WHERE model_id = :model_id AND version = :version"
)
_DELETE_VERSION = "DELETE FROM versions WHERE model_id = :model_id AND version = :version"
_DETACH = """
UPDATE versions SET checkpoint_id = NULL WHERE checkpoint_id IN
  (SELECT id FROM checkpoints WHERE sha256 IN (SELECT sha256 FROM gone))
"""
_DELETE_CHECKPOINTS = "DELETE FROM checkpoints WHERE sha256 IN (SELECT sha256 FROM gone)"
_DELETE_JOB_FILES = "DELETE FROM job_files WHERE sha256 IN (SELECT sha256 FROM gone)"
_DELETE_VARIANTS = "DELETE FROM variants WHERE sha256 IN (SELECT sha256 FROM gone)"


class Lost(Struct, frozen=True):
    """The rows deleted because their bytes are missing. files: named by rows, but missing."""

    samples: int = 0
    versions: int = 0
    checkpoints: int = 0
    variants: int = 0
    files: int = 0


def reconcile(
    transaction: Transaction, *, files: FileStore, packs: Packs, damaged: Iterable[str] = ()
) -> Lost:
    """Delete rows whose bytes are missing, and mark all packs: they may hold bytes without a row.

    damaged: SHA-256 of files that exist, but count as missing.
    Aliases of deleted versions move to the newest promoted one. Version 1 and a model's artifacts
    always stay: without them there is no model.
    """
    samples = _reconcile_packs(transaction, packs)
    for statement in _MARK:
        transaction.execute(statement)
    gone = sorted({*_missing(transaction, files), *damaged})
    transaction.execute("CREATE TEMP TABLE gone (sha256 TEXT PRIMARY KEY)")
    transaction.executemany("INSERT INTO gone VALUES (?)", [(sha256,) for sha256 in gone])
    variants = transaction.execute(_DELETE_VARIANTS).rowcount
    transaction.execute(_DELETE_JOB_FILES)
    transaction.execute(_DETACH)
    checkpoints = transaction.execute(_DELETE_CHECKPOINTS).rowcount
    versions = _reconcile_versions(transaction)
    files.release(transaction, gone)
    transaction.execute("DROP TABLE gone")
    return Lost(samples, versions, checkpoints, variants, files=len(gone))


def _reconcile_packs(transaction: Transaction, packs: Packs) -> int:
    lost = 0
    for row in transaction.execute("SELECT * FROM packs").fetchall():
        size = size_of(packs.path(row["model_id"], row["pack"]))
        if size >= row["size_bytes"]:
            continue
        place = {"model_id": row["model_id"], "pack": row["pack"], "size": size}
        lost += transaction.execute(_SHORT_SAMPLES, place).rowcount
        if size == 0:
            key = (row["model_id"], row["pack"])
            transaction.execute("DELETE FROM packs WHERE model_id = ? AND pack = ?", key)
        else:
            transaction.execute(_SHORT_PACK, place)
    return lost


def _missing(transaction: Transaction, files: FileStore) -> list[str]:
    """An assembled file is missing if one of its parts is."""
    missing = {
        row["sha256"]
        for row in transaction.execute(ON_DISK).fetchall()
        if size_of(files.path(row["sha256"])) != row["size_bytes"]
    }
    assembled = transaction.execute("SELECT * FROM assembled_files").fetchall()
    incomplete = [
        r["sha256"] for r in assembled if not missing.isdisjoint((r["base"], r["recipe"]))
    ]
    return [*missing, *incomplete]


def _reconcile_versions(transaction: Transaction) -> int:
    lost = transaction.execute(_LOST_VERSIONS).fetchall()
    for row in lost:
        key = {"model_id": row["model_id"], "version": row["version"]}
        heir = transaction.execute(_NEWEST_PROMOTED, key).fetchone()
        transaction.execute(_MOVE_ALIASES, {**key, "heir": 1 if heir is None else heir["version"]})
        transaction.execute(_DELETE_VERSION, key)
    return len(lost)
