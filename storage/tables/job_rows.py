"""Rows of jobs: read, and moved from state to state within a transaction."""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from storage.database.codec import dump, dump_time
from storage.database.connection import sqlite3
from storage.database.rows import columns, record
from storage.database.transaction import Transaction
from storage.errors import Busy, NotFound, StateConflict
from storage.records.jobs import NEXT, Job, JobFields, JobState, NewJob
from storage.tables.classes import require_same_classes
from storage.tables.metrics import pack_curve
from storage.tables.model_rows import find_model, is_deleting, no_model

_SELECT = "SELECT jobs.*, models.name AS model FROM jobs JOIN models ON models.id = jobs.model_id"
_ENQUEUE = """
INSERT INTO jobs
  (model_id, base, state, cause, hyperparameters, start, ignore_policy, priority, watermark,
   created_at)
SELECT
  models.id, :base, 'queued', :cause, :hyperparameters, :start, :ignore_policy, :priority,
  (SELECT coalesce(max(id), 0) FROM samples WHERE model_id = models.id), :created_at
FROM models WHERE models.id = :model_id
RETURNING id
"""
_GIVEN = ("model_id", "base", "hyperparameters", "start", "ignore_policy", "priority")
_RUNNING = "SELECT id FROM jobs WHERE model_id = ? AND state = 'running'"
_UNBLOCKED = frozenset(JobState) - {JobState.QUEUED, JobState.PAUSED}


def training_job(connection: sqlite3.Connection, model_id: int) -> int | None:
    """The id of the model's running job, None if none runs."""
    row = connection.execute(_RUNNING, (model_id,)).fetchone()
    return None if row is None else row["id"]


def find_job(connection: sqlite3.Connection, job_id: int) -> Job:
    """Raises NotFound."""
    jobs = fetch_jobs(connection, "WHERE jobs.id = ?", (job_id,))
    if not jobs:
        raise no_job(job_id)
    return jobs[0]


def fetch_jobs(
    connection: sqlite3.Connection, clauses: str, parameters: tuple[Any, ...] = ()
) -> list[Job]:
    """Jobs; clauses: what follows the SELECT: WHERE, ORDER BY, LIMIT."""
    rows = connection.execute(f"{_SELECT} {clauses}", parameters).fetchall()
    return [record(Job, row, trigger=row["cause"]) for row in rows]


def insert_job(transaction: Transaction, new: NewJob) -> Job:
    """Queue a job over the samples that the model has now.

    Raises NotFound, and StateConflict if the model's classes have changed.
    """
    if new.class_ids is not None:
        require_same_classes(transaction, new.model_id, new.class_ids)
    values = {**columns(new, _GIVEN), "cause": new.trigger}
    row = transaction.execute(
        _ENQUEUE, {**values, "created_at": dump_time(transaction.now)}
    ).fetchone()
    if row is None:
        raise no_model(new.model_id)
    job = find_job(transaction.connection, row["id"])
    transaction.event("job.queued", job.model, {"job_id": job.id})
    return job


def move_job(
    transaction: Transaction, job_id: int, *, from_: JobState, to: JobState, fields: dict[str, Any]
) -> Job:
    """Change a job's state within a transaction; fields: column → value."""
    job = find_job(transaction.connection, job_id)
    if to not in NEXT[from_]:
        already = f" and cannot become {to.value}" if to is not from_ else " already"
        raise StateConflict(f"job {job_id} is {from_.value}{already}")
    if job.state is not from_:
        raise StateConflict(f"job {job_id} is {job.state.value}, not {from_.value}")
    if to is JobState.RUNNING and is_deleting(transaction.connection, job.model_id):
        raise Busy(f"samples of {job.model!r} are being deleted; job {job_id} begins after that")
    now = dump_time(transaction.now)
    changes: dict[str, Any] = {
        "state": to.value,
        **({"blocked_by": "[]"} if to in _UNBLOCKED else {}),
    }
    if to is JobState.RUNNING and job.started_at is None:
        changes["started_at"] = now
    if to is JobState.RUNNING and job.base is None:
        changes["base"] = find_model(transaction.connection, "id", job.model_id).base
    if not NEXT[to]:
        changes["finished_at"] = now
        pack_curve(transaction, job_id)
    update_job(transaction, job_id, changes | fields)
    moved = find_job(transaction.connection, job_id)
    data = {"job_id": job_id, "version": moved.version, "error": moved.error}
    transaction.event(
        f"job.{to.value}",
        moved.model,
        {name: value for name, value in data.items() if value is not None},
    )
    return moved


def update_job(transaction: Transaction, job_id: int, fields: dict[str, Any]) -> None:
    """Set columns of a job within a transaction. Raises NotFound."""
    if not transaction.update("jobs", fields, where={"id": job_id}):
        raise no_job(job_id)


def job_columns(fields: JobFields) -> dict[str, Any]:
    """Column → value, of the fields that are not None."""
    columns: dict[str, Any] = {name: value for name, value in fields.items() if value is not None}
    for name in columns.keys() & {"progress", "metrics", "error"}:
        columns[name] = dump(columns[name])
    if "blocked_by" in columns:
        columns["blocked_by"] = dump([asdict(blocker) for blocker in columns["blocked_by"]])
    return columns


def no_job(job_id: int) -> NotFound:
    """The error for a job that does not exist."""
    return NotFound(f"there is no job {job_id}; GET /v1/jobs lists them")
