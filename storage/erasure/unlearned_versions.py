"""Deletes the versions that were trained on deleted samples, within a transaction."""

from __future__ import annotations

import numpy as np

from storage.blobs.files import FileStore
from storage.database.transaction import Transaction
from storage.erasure.lineage import jobs_that_saw, seen_by
from storage.records.id_set import Ids, decode
from storage.records.jobs import JobState
from storage.records.versions import Version
from storage.tables.jobs import move_job
from storage.versions.aliases import LATEST, move_alias
from storage.versions.version_rows import delete_version, find_version, named_version

_REQUESTS = """
SELECT forgettings.job_id, forgettings.ids FROM forgettings JOIN jobs ON jobs.id = job_id
WHERE model_id = ? AND (jobs.id = ? OR jobs.state IN ('succeeded', 'failed', 'cancelled'))
"""
_REASON = "UPDATE versions SET reason = ? WHERE model_id = ? AND version = ?"
_ALIASES = """
SELECT alias FROM aliases WHERE model_id = ? AND version = ?
"""
_DELETE_REST = (
    "DELETE FROM checkpoints WHERE job_id = ? RETURNING sha256",
    "DELETE FROM job_files WHERE job_id = ? RETURNING sha256",
)
_WAITING_FOR = """
SELECT id, state FROM jobs
WHERE state IN ('queued', 'paused') AND (
  id = :job_id
  OR start IN (SELECT CAST(id AS TEXT) FROM checkpoints WHERE job_id = :job_id)
)
"""


def carry_out_requests(transaction: Transaction, files: FileStore, version: Version) -> None:
    """Delete the versions that saw erased samples, if this one's job has not seen them.

    Their aliases move to it, regardless of the gate. Requests whose own job is still to come stay;
    one whose own job has failed is no way for an upgrade around the gate.
    """
    requests = transaction.execute(_REQUESTS, (version.model_id, version.job_id)).fetchall()
    if not requests:
        return
    own = seen_by(transaction.connection, version.job_id)
    if own is None:
        return
    latest = named_version(transaction.connection, version.model_id, LATEST)
    for request in requests:
        ids = decode(request["ids"])
        may_inherit = request["job_id"] == version.job_id or version.base == latest.base
        if not may_inherit or np.isin(ids, own).any():
            continue
        delete_versions_that_saw(transaction, files, version.model_id, ids, heir=version.version)
        transaction.execute("DELETE FROM forgettings WHERE job_id = ?", (request["job_id"],))


def delete_versions_that_saw(
    transaction: Transaction, files: FileStore, model_id: int, ids: Ids, *, heir: int
) -> list[int]:
    """Delete the versions that used these samples, and the checkpoints of their jobs.

    Waiting jobs that would start from one are cancelled. heir: the version that their aliases move
    to. Returns the numbers of the deleted versions.
    """
    gone: list[int] = []
    for job_id in jobs_that_saw(transaction.connection, model_id, ids):
        for row in transaction.execute(_WAITING_FOR, {"job_id": job_id}).fetchall():
            state = JobState(row["state"])
            move_job(transaction, row["id"], from_=state, to=JobState.CANCELLED, fields={})
        versions = transaction.execute(
            "SELECT version FROM versions WHERE job_id = ? ORDER BY version", (job_id,)
        ).fetchall()
        for row in versions:
            _pass_on_aliases(transaction, model_id, row["version"], heir=heir)
            delete_version(transaction, files, model_id, row["version"])
            gone.append(row["version"])
        for delete in _DELETE_REST:
            files.release_deleted(transaction, delete, (job_id,))
    return gone


def _pass_on_aliases(transaction: Transaction, model_id: int, number: int, *, heir: int) -> None:
    """Move a version's aliases to the heir."""
    version = find_version(transaction.connection, model_id, heir)
    for row in transaction.execute(_ALIASES, (model_id, number)).fetchall():
        move_alias(transaction, version, row["alias"])
        if row["alias"] == LATEST:
            why = f"latest, because version {number} had seen erased samples"
            reason = f"{why} (before: {version.reason})"
            transaction.execute(_REASON, (reason, model_id, heir))
