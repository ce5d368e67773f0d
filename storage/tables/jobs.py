"""Jobs: training runs and their states."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterable
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Any

from storage.database.codec import dump, dump_time, load, load_time
from storage.database.repository import Repository, writes
from storage.database.transaction import Transaction
from storage.records.jobs import Job, JobFields, JobState, LogLine, NewJob
from storage.tables.job_rows import (
    fetch_jobs,
    find_job,
    insert_job,
    job_columns,
    move_job,
    update_job,
)
from storage.tables.model_rows import among

if TYPE_CHECKING:  # in the standard library since CPython 3.11
    from typing_extensions import Unpack

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

    def set_log(self, id: int, lines: Iterable[LogLine]) -> None:  # noqa: A002
        """Replace the stored lines. Raises NotFound."""
        text = dump([(dump_time(line.at), line.source, line.text) for line in lines])
        self._writer.write(
            lambda transaction: transaction.execute(
                "INSERT OR REPLACE INTO job_logs VALUES (?, ?)", (id, text)
            )
        )

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
