"""Rounds of federated training, and the files of jobs that start from uploaded parameters."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import asdict

from storage.blobs.files import FileStore
from storage.database.codec import dump, load
from storage.database.connection import Readers, sqlite3
from storage.database.repository import Repository, writes
from storage.database.rows import columns, record
from storage.database.transaction import Transaction
from storage.database.writer import Writer
from storage.disk.privacy_ledger import PrivacyLedger
from storage.errors import NotFound, StateConflict
from storage.records.federation import FileRole, NewRound, PrivacySpent, Round
from storage.records.jobs import Job, JobState, NewJob
from storage.records.models import FileRecord, Model
from storage.tables.jobs import find_job, insert_job, move_job

_UNFINISHED = "state IN ('queued', 'running', 'paused')"
_OF = "SELECT rounds.* FROM rounds JOIN jobs ON jobs.id = job_id"
_RUNNING = f"{_OF} WHERE rounds.model_id = ? AND {_UNFINISHED}"
# A round that ended without an update may be requested again.
_ASKED = f"""
{_OF} WHERE rounds.model_id = ? AND federation = ? AND round = ? AND state = 'succeeded'
"""
_TODAY = """
SELECT count(*) FROM rounds JOIN jobs ON jobs.id = job_id
WHERE rounds.model_id = ? AND substr(created_at, 1, 10) = ?
"""
_NEWEST = f"""
{_OF} WHERE rounds.model_id = ? AND state = 'succeeded' ORDER BY job_id DESC LIMIT 1
"""
_FILE = """
SELECT files.* FROM job_files JOIN files USING (sha256) WHERE job_id = ? AND role = ?
"""
_PARAMETERS = """
DELETE FROM job_files WHERE role = 'parameters' AND job_id IN (
  SELECT id FROM jobs WHERE model_id = ? AND state NOT IN ('queued', 'running', 'paused')
) RETURNING sha256
"""
_OLDER = """
DELETE FROM job_files WHERE role <> 'parameters' AND job_id IN (
  SELECT id FROM jobs WHERE model_id = ? AND id < ?
) RETURNING sha256
"""
_CHECKPOINTS = "DELETE FROM checkpoints WHERE job_id = ? AND NOT pinned RETURNING sha256"
_UPDATE = "DELETE FROM job_files WHERE job_id = ? AND role = 'update' RETURNING sha256"
_SPENT = "SELECT privacy_spent FROM models WHERE id = ?"


class Rounds(Repository):
    """Rounds by the id of their job."""

    def __init__(
        self, writer: Writer, readers: Readers, *, files: FileStore, data_dir: Path
    ) -> None:
        super().__init__(writer, readers)
        self._files = files
        self._ledger = PrivacyLedger(data_dir)

    @writes
    def begin(self, transaction: Transaction, new: NewRound, parameters: FileRecord) -> Round:
        """Queue a round that starts from the parameters in an adopted file.

        Raises StateConflict while another round of the model is unfinished, or if this one was
        already trained; NotFound.
        """
        _require_new(transaction, new)
        job = self._insert(transaction, new.job, parameters)
        asked = columns(new, ("federation", "terms", "deadline"))
        own = {"job_id": job.id, "model_id": job.model_id, "round": new.number}
        transaction.insert("rounds", {**own, **asked})
        return _one(transaction.connection, job.id)

    def begin_job(self, new: NewJob, parameters: FileRecord) -> Job:
        """Queue a job that starts from the parameters in an adopted file. Raises NotFound."""
        return self._writer.write(lambda transaction: self._insert(transaction, new, parameters))

    def _insert(self, transaction: Transaction, new: NewJob, file: FileRecord) -> Job:
        job = insert_job(transaction, new)
        self._files.release_deleted(transaction, _PARAMETERS, (job.model_id,))
        self._add(transaction, job.id, "parameters", file)
        return job

    @writes
    def finish(
        self,
        transaction: Transaction,
        job_id: int,
        model: Model,
        files: dict[FileRole, FileRecord],
        outcome: dict[str, Any],
        *,
        spent: PrivacySpent,
        metrics: dict[str, Any],
    ) -> None:
        """Store a round's results, and make its job succeed; older rounds lose their files.

        spent: the model's total including this round. The ledger is written last, just before the
        commit: of what is not stored nothing was spent, unless that very commit fails. Raises
        NotFound, StateConflict, StorageFull, StorageBroken.
        """
        for role, file in files.items():
            self._add(transaction, job_id, role, file)
        transaction.execute(
            "UPDATE rounds SET outcome = ? WHERE job_id = ?", (dump(outcome), job_id)
        )
        transaction.execute(
            "UPDATE models SET privacy_spent = ? WHERE id = ?",
            (dump(asdict(spent)), model.id),
        )
        move_job(
            transaction,
            job_id,
            from_=JobState.RUNNING,
            to=JobState.SUCCEEDED,
            fields={"metrics": dump(metrics)},
        )
        self._files.release_deleted(transaction, _PARAMETERS, (model.id,))
        self._files.release_deleted(transaction, _OLDER, (model.id, job_id))
        self._files.release_deleted(transaction, _CHECKPOINTS, (job_id,))
        self._ledger.write(model, spent)

    @writes
    def drop_update(self, transaction: Transaction, job_id: int) -> None:
        """Delete the update of a round."""
        self._files.release_deleted(transaction, _UPDATE, (job_id,))

    def get(self, job_id: int) -> Round:
        """Raises NotFound."""
        return self._readers.read(_one, job_id)

    def unfinished(self) -> list[Round]:
        """Rounds that wait or train, oldest first."""
        with self._readers.snapshot() as connection:
            rows = connection.execute(f"{_OF} WHERE {_UNFINISHED} ORDER BY job_id").fetchall()
            return [_round(connection, row) for row in rows]

    def newest(self, model_id: int) -> Round | None:
        """The last round of a model that made an update."""
        with self._readers.snapshot() as connection:
            row = connection.execute(_NEWEST, (model_id,)).fetchone()
            return None if row is None else _round(connection, row)

    def file(self, job_id: int, role: FileRole) -> FileRecord | None:
        """A file of a job, if it still exists."""
        row = self._readers.one(_FILE, (job_id, role))
        return None if row is None else FileRecord(row["sha256"], row["size_bytes"])

    def today(self, model_id: int, day: str) -> int:
        """How many rounds of a model were queued on a UTC day like `2026-11-22`."""
        return int(self._readers.one(_TODAY, (model_id, day))[0])

    def spent(self, model: Model) -> PrivacySpent:
        """The privacy that a model's rounds have spent, by the database or by the ledger.

        Raises StorageBroken if the ledger cannot be read.
        """
        row = self._readers.one(_SPENT, (model.id,))
        stored = PrivacySpent(**load(row["privacy_spent"])) if row is not None else PrivacySpent()
        return stored.at_least(self._ledger.read(model))

    def _add(self, transaction: Transaction, job_id: int, role: FileRole, file: FileRecord) -> None:
        self._files.reference(transaction, [file])
        transaction.execute("INSERT INTO job_files VALUES (?, ?, ?)", (job_id, role, file.sha256))


def no_round(job_id: int) -> NotFound:
    """The error for a round that does not exist."""
    return NotFound(f"there is no round {job_id}; POST /v1/models/NAME/rounds begins one")


def _require_new(transaction: Transaction, new: NewRound) -> None:
    model_id = new.job.model_id
    running = transaction.execute(_RUNNING, (model_id,)).fetchone()
    if running is not None:
        raise StateConflict(
            f"round {running['round']} is under way as /v1/rounds/{running['job_id']}; wait for "
            "it, or DELETE it first"
        )
    asked = transaction.execute(_ASKED, (model_id, new.federation, new.number)).fetchone()
    if asked is not None:
        raise StateConflict(
            f"round {new.number} of {new.federation} was trained already, as "
            f"/v1/rounds/{asked['job_id']}; its update may be fetched until the next round"
        )


def _one(connection: sqlite3.Connection, job_id: int) -> Round:
    row = connection.execute(f"{_OF} WHERE job_id = ?", (job_id,)).fetchone()
    if row is None:
        raise no_round(job_id)
    return _round(connection, row)


def _round(connection: sqlite3.Connection, row: sqlite3.Row) -> Round:
    return record(Round, row, job=find_job(connection, row["job_id"]), number=row["round"])
