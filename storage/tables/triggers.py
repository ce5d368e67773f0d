"""Triggers: rules that queue jobs of a model."""

from __future__ import annotations

import builtins

from storage.database.codec import dump_time
from storage.database.connection import sqlite3
from storage.database.repository import Repository, writes
from storage.database.rows import columns, record
from storage.database.transaction import Transaction
from storage.errors import NotFound
from storage.records.jobs import NewTrigger, Trigger
from storage.tables.model_rows import LABELLED, no_model

_SELECT = """
SELECT triggers.*, models.name AS model
FROM triggers JOIN models ON models.id = triggers.model_id
"""
_ADD = f"""
INSERT INTO triggers
  (model_id, name, rule, hyperparameters, priority, enabled, created_at, labelled)
SELECT models.id, :name, :rule, :hyperparameters, :priority, :enabled, :created_at, ({LABELLED})
FROM models WHERE models.id = :model_id
RETURNING id
"""  # noqa: S608 - our own
_GIVEN = ("name", "rule", "hyperparameters", "priority", "enabled")
_BEGIN_ANEW = f"""
UPDATE triggers SET tried_at = ?, outcome = '', labelled = ({LABELLED})
FROM models WHERE models.id = model_id AND triggers.id = ?
"""  # noqa: S608 - our own
_FIRED = """
UPDATE triggers SET tried_at = ?, fired_at = ?, job_id = ?, labelled = ?, outcome = ? WHERE id = ?
"""


class Triggers(Repository):
    """Triggers by id. Every change is an event, which the scheduler follows."""

    @writes
    def add(self, transaction: Transaction, new: NewTrigger) -> Trigger:
        """Add a trigger; samples that are already labelled do not count for it. Raises NotFound."""
        parameters = {
            "model_id": new.model_id,
            "created_at": dump_time(transaction.now),
            **columns(new, _GIVEN),
        }
        row = transaction.execute(_ADD, parameters).fetchone()
        if row is None:
            raise no_model(new.model_id)
        return _changed(transaction, "trigger.created", row["id"])

    def get(self, id: int) -> Trigger:  # noqa: A002
        """Raises NotFound."""
        return self._readers.read(_find, id)

    def list(
        self, model_id: int | None = None, *, limit: int = -1, after: int = 0
    ) -> builtins.list[Trigger]:
        """Of one model or all, by id; after: the previous page's last id. limit: -1 for all."""
        rows = self._readers.all(
            f"{_SELECT} WHERE coalesce(model_id = ?, 1) AND triggers.id > ? "
            "ORDER BY triggers.id LIMIT ?",
            (model_id, after, limit),
        )
        return [record(Trigger, row) for row in rows]

    @writes
    def update(self, transaction: Transaction, id: int, new: NewTrigger, *, anew: bool) -> Trigger:  # noqa: A002
        """Replace a trigger's settings. anew: reset it, so that only samples from now on count.

        tried_at is then the present time, and outcome empty until it tries. Raises NotFound.
        """
        _find(transaction.connection, id)
        transaction.update("triggers", columns(new, _GIVEN), where={"id": id})
        if anew:
            transaction.execute(_BEGIN_ANEW, (dump_time(transaction.now), id))
        return _changed(transaction, "trigger.updated", id)

    @writes
    def delete(self, transaction: Transaction, id: int) -> None:  # noqa: A002
        """Raises NotFound."""
        _changed(transaction, "trigger.deleted", id)
        transaction.execute("DELETE FROM triggers WHERE id = ?", (id,))

    @writes
    def fired(
        self, transaction: Transaction, trigger: Trigger, *, job_id: int, labelled: int
    ) -> Trigger:
        """Record that it queued a job. labelled: the number of labelled samples then."""
        now, outcome = dump_time(transaction.now), f"asked for job {job_id}"
        transaction.execute(_FIRED, (now, now, job_id, labelled, outcome, trigger.id))
        return _find(transaction.connection, trigger.id)

    @writes
    def note(self, transaction: Transaction, id: int, outcome: str) -> None:  # noqa: A002
        """Record why it queued no job."""
        tried = {"tried_at": dump_time(transaction.now), "outcome": outcome}
        transaction.update("triggers", tried, where={"id": id})

    @writes
    def rebase(self, transaction: Transaction, id: int, labelled: int) -> None:  # noqa: A002
        """Reset the count from which new samples are counted: some samples were deleted."""
        transaction.update("triggers", {"labelled": labelled}, where={"id": id})


def _changed(transaction: Transaction, kind: str, trigger_id: int) -> Trigger:
    trigger = _find(transaction.connection, trigger_id)
    transaction.event(kind, trigger.model, {"trigger_id": trigger.id, "name": trigger.name})
    return trigger


def _find(connection: sqlite3.Connection, trigger_id: int) -> Trigger:
    row = connection.execute(f"{_SELECT} WHERE triggers.id = ?", (trigger_id,)).fetchone()
    if row is None:
        raise NotFound(
            f"there is no trigger {trigger_id}; GET /v1/models/{{name}}/triggers lists a model's"
        )
    return record(Trigger, row)
