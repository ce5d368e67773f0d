"""Jobs: training runs and their states."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Sequence
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

from msgspec.structs import asdict

from storage.database.codec import dump, dump_time, load, load_time
from storage.database.connection import sqlite3
from storage.database.repository import Repository, writes
from storage.database.rows import columns, record
from storage.database.transaction import Transaction
from storage.errors import Busy, NotFound, StateConflict
from storage.records.jobs import NEXT, Job, JobFields, JobState, LogLine, NewJob
from storage.tables.classes import require_same_classes
from storage.tables.metrics import pack_curve
from storage.tables.model_rows import among, find_model, is_deleting, no_model

if TYPE_CHECKING:  # in the standard library since CPython 3.11
    from typing_extensions import Unpack

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
_LAST_STARTS = """
SELECT model_id, max(started_at) AS started_at FROM jobs
WHERE started_at <= ? GROUP BY model_id
"""
_COUNTS = """
SELECT state, count(*) FROM jobs JOIN models ON models.id = model_id WHERE {} GROUP BY state
"""


class Jobs(Repository):
    """Jobs by id. Every change of state is compare-and-swap: of two callers one wins."""

    def enqueue(self, new: NewJob) -> Job:
        """Queue a job over the samples that the model has now.

        Raises NotFound, and StateConflict if the model's classes have changed.
        """
        return self._writer.write(lambda transaction: insert_job(transaction, new))

    def get(self, id: int) -> Job:  # noqa: A002
        """Raises NotFound."""
        return self._readers.read(find_job, id)

    def list(
        self,
        *,
        model: str | None = None,
        models: Collection[str] | None = None,
        states: Collection[JobState] | None = None,
        limit: int,
        after: int | None = None,
    ) -> builtins.list[Job]:
        """Jobs, newest first; models: only of these. after: the last id of the previous page."""
        names = None if model is None else {model}
        conditions = [
            among("models.name", models),
            among("models.name", names),
            among("jobs.state", states),
            ("1", ()) if after is None else ("jobs.id < ?", (after,)),
        ]
        where = " AND ".join(condition for condition, _ in conditions)
        parameters = chain.from_iterable(chosen for _, chosen in conditions)
        return self._fetch(f"WHERE {where} ORDER BY jobs.id DESC LIMIT ?", (*parameters, limit))

    def waiting(self) -> builtins.list[Job]:
        """Queued and paused jobs, oldest first."""
        return self._fetch("WHERE state IN ('queued', 'paused') ORDER BY jobs.id")

    def counts(self, models: Collection[str] | None = None) -> dict[JobState, int]:
        """The number of jobs per state; states without jobs are absent. models: only of these."""
        condition, chosen = among("models.name", models)
        rows = self._readers.all(_COUNTS.format(condition), chosen)
        return {JobState(row[0]): row[1] for row in rows}

    def last_starts(self, now: datetime) -> dict[int, datetime]:
        """Model id → when its last job started; models that never trained are absent.

        A start in the future was noted by a clock that ran ahead, and does not count.
        """
        rows = self._readers.all(_LAST_STARTS, (dump_time(now),))
        return {row["model_id"]: load_time(row["started_at"]) for row in rows}

    def running(self) -> builtins.list[Job]:
        """Running jobs, oldest first."""
        return self._fetch("WHERE state = 'running' ORDER BY jobs.id")

    @writes
    def move(
        self,
        transaction: Transaction,
        id: int,  # noqa: A002
        from_: JobState,
        to: JobState,
        **fields: Unpack[JobFields],
    ) -> Job:
        """Change a job's state, and set the given fields; clears `blocked_by` if it stops waiting.

        Raises NotFound, and StateConflict if the change is illegal or another came first.
        """
        return move_job(transaction, id, from_=from_, to=to, fields=job_columns(fields))

    def report(self, id: int, **fields: Unpack[JobFields]) -> None:  # noqa: A002
        """Set the given fields, whatever the state. Raises NotFound."""
        if columns := job_columns(fields):
            self._writer.write(lambda transaction: update_job(transaction, id, columns))

    def log(self, id: int) -> builtins.list[LogLine]:  # noqa: A002
        """The last lines of its children, oldest first; none if the job does not exist."""
        row = self._readers.one("SELECT lines FROM job_logs WHERE job_id = ?", (id,))
        lines = [] if row is None else load(row["lines"])
        return [LogLine(load_time(at), source, text) for at, source, text in lines]

    @writes
    def set_log(self, transaction: Transaction, id: int, lines: Sequence[LogLine]) -> None:  # noqa: A002
        """Replace the stored lines. Raises NotFound."""
        text = dump([(dump_time(line.at), line.source, line.text) for line in lines])
        transaction.execute("INSERT OR REPLACE INTO job_logs VALUES (?, ?)", (id, text))

    @writes
    def choose(
        self,
        transaction: Transaction,
        id: int,  # noqa: A002
        hyperparameters: dict[str, Any],
        *,
        reasons: dict[str, str],
    ) -> None:
        """Add hyperparameters that the job has chosen, and why. Raises NotFound."""
        job = find_job(transaction.connection, id)
        columns = {
            "hyperparameters": dump(job.hyperparameters | hyperparameters),
            "choices": dump(job.choices | reasons),
        }
        update_job(transaction, id, columns)

    def _fetch(self, clauses: str, parameters: tuple[Any, ...] = ()) -> builtins.list[Job]:
        return self._readers.read(fetch_jobs, clauses, parameters)


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
