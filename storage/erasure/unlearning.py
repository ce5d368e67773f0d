"""Unlearning: deletes samples, and then the versions that were trained on them.

The deletion, or the record of one of many samples, and the request to retrain without these are one
transaction, so a crash cannot keep one and lose the other.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from storage.blobs.files import FileStore
from storage.database.codec import dump, load
from storage.database.connection import Readers, sqlite3
from storage.database.transaction import Transaction
from storage.erasure.deletion import Eraser
from storage.erasure.lineage import count_as_seen, jobs_that_saw, seen_by
from storage.errors import InUse
from storage.records.id_set import Ids, decode, encode
from storage.records.jobs import Job, JobState, NewJob
from storage.records.versions import Version
from storage.tables.jobs import fetch_jobs, find_job, insert_job, move_job
from storage.tables.model_rows import find_model
from storage.versions.aliases import LATEST, move_alias
from storage.versions.version_rows import delete_version, find_version, named_version

Descriptions = tuple[dict[str, Any], ...]
_SAVE_REQUEST = """
INSERT INTO forgettings (job_id, ids) VALUES (?, ?) ON CONFLICT DO UPDATE SET ids = excluded.ids
"""
_QUEUED_REQUEST = """
SELECT forgettings.job_id, forgettings.ids FROM forgettings JOIN jobs ON jobs.id = job_id
WHERE model_id = ? AND jobs.state = 'queued'
"""
_REQUESTED = """
SELECT forgettings.ids FROM forgettings JOIN jobs ON jobs.id = job_id WHERE model_id = ?
"""
_MADE_BEFORE = """
SELECT job_id FROM versions JOIN job_samples USING (job_id) JOIN jobs ON jobs.id = job_id
WHERE versions.model_id = ? AND watermark < ?
"""
_PREPROCESS = "SELECT base, preprocess FROM bases WHERE model_id = ?"
_SET_PREPROCESS = "UPDATE bases SET preprocess = ? WHERE model_id = ? AND base = ?"
_TRAINABLE = """
SELECT id FROM samples
WHERE model_id = ? AND split = 'train' AND label IS NOT NULL AND quarantine IS NULL LIMIT ?
"""
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


class Deletion(Struct, frozen=True):
    """The result of a deletion.

    deleted: samples. job: retrains without them. versions: numbers of the versions deleted at once.
    """

    deleted: int
    job: Job | None = None
    versions: tuple[int, ...] = ()


class Unlearning:
    """Deletes samples, and queues the job whose version replaces those trained on them."""

    def __init__(self, readers: Readers, *, files: FileStore, eraser: Eraser) -> None:
        self._readers = readers
        self._files = files
        self._eraser = eraser

    def delete(
        self, model_id: int, ids: Ids, *, anew: NewJob, preprocess: Descriptions | None = None
    ) -> Deletion:
        """Delete samples; if a job has trained on one, queue `anew`, and delete the versions that
        used them when it succeeds. If such a job is already queued, it serves both. Paused jobs
        that used one are cancelled. With no samples left to train on, the versions are deleted at
        once. The eraser overwrites the samples' bytes later.

        preprocess: fitted without the samples, None if it was not fitted on them. Jobs that used
        the old one count as having used the samples. Raises InUse, and changes nothing, while a job
        runs that would have to be stopped.
        """
        may_retrain = self._readers.read(_leaves_trainable, model_id, ids)

        def forget(transaction: Transaction) -> Deletion:
            saw = jobs_that_saw(transaction.connection, model_id, ids)
            if not saw:
                return Deletion(0)
            _refuse_while_one_runs(transaction, model_id, None if preprocess is not None else saw)
            if preprocess is not None:
                count_as_seen(transaction, model_id, ids)
                _replace_preprocess(transaction, model_id, preprocess)
            _cancel_paused(transaction, model_id, ids)
            if may_retrain:
                return Deletion(0, _request_retraining(transaction, anew, ids))
            versions = delete_versions_that_saw(transaction, self._files, model_id, ids, heir=1)
            return Deletion(0, versions=tuple(versions))

        deletion, gone = self._eraser.deletions.run(model_id, lambda: ids, forget)
        return replace(deletion, deleted=len(gone))

    def may_have_taught(self, model_id: int, ids: Ids) -> bool:
        """Whether mean and std may have been fitted on one of these samples.

        They were not if a version remains whose job could read none of them: it used the same fit.
        """
        with self._readers.snapshot() as connection:
            wished = [decode(row["ids"]) for row in connection.execute(_REQUESTED, (model_id,))]
            going = np.concatenate([np.empty(0, np.int64), *wished])
            older = connection.execute(_MADE_BEFORE, (model_id, int(ids.min()))).fetchall()
            return {row["job_id"] for row in older} <= {*jobs_that_saw(connection, model_id, going)}


def _leaves_trainable(connection: sqlite3.Connection, model_id: int, ids: Ids) -> bool:
    """Whether a job of the model would have a sample to train on without these."""
    rows = connection.execute(_TRAINABLE, (model_id, len(ids) + 1))
    return not np.isin(np.fromiter((row["id"] for row in rows), np.int64), ids).all()


def _request_retraining(transaction: Transaction, anew: NewJob, ids: Ids) -> Job:
    """The job that retrains without the samples: one already queued for that, or `anew`."""
    waiting = transaction.execute(_QUEUED_REQUEST, (anew.model_id,)).fetchone()
    if waiting is None:
        job = insert_job(transaction, anew)
    else:
        job = find_job(transaction.connection, waiting["job_id"])
        ids = np.concatenate([ids, decode(waiting["ids"])])
    transaction.execute(_SAVE_REQUEST, (job.id, encode(ids)))
    return job


def _refuse_while_one_runs(transaction: Transaction, model_id: int, saw: list[int] | None) -> None:
    """Raises InUse while a job of the model runs that used the samples; saw: None for any job."""
    for job in _in_state(transaction.connection, model_id, JobState.RUNNING):
        if saw is None or job.id in saw:
            raise InUse(f"job {job.id} trains on samples that are to be erased; cancel it first")


def _cancel_paused(transaction: Transaction, model_id: int, ids: Ids) -> None:
    saw = jobs_that_saw(transaction.connection, model_id, ids)
    for job in _in_state(transaction.connection, model_id, JobState.PAUSED):
        if job.id in saw:
            move_job(transaction, job.id, from_=job.state, to=JobState.CANCELLED, fields={})


def _in_state(connection: sqlite3.Connection, model_id: int, state: JobState) -> list[Job]:
    return fetch_jobs(connection, "WHERE model_id = ? AND state = ?", (model_id, state.value))


def _replace_preprocess(transaction: Transaction, model_id: int, new: Descriptions) -> None:
    """Set the preprocessing of the current base; other bases are fitted again by their next job."""
    model = find_model(transaction.connection, "id", model_id)
    for row in transaction.execute(_PREPROCESS, (model_id,)).fetchall():
        described = new if row["base"] == model.base else map(_opened, load(row["preprocess"]))
        key = (model_id, row["base"])
        transaction.execute(_SET_PREPROCESS, (dump([*described]), *key))
    transaction.event("model.updated", model.name, {})


def _opened(description: dict[str, Any]) -> dict[str, Any]:
    fitted = {"mean": None, "std": None} if description.get("learn_from") else {}
    return description | fitted


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
