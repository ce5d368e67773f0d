"""Sets of a model's samples.

The base set: samples of what a model already knew, which jobs replay and the gate judges by. They
have a separate split, and are otherwise treated like all samples. The reference set: frozen
validation samples, so that versions months apart can be compared.
"""

from __future__ import annotations

from storage.database.codec import dump_time
from storage.database.repository import Repository, writes
from storage.database.transaction import Transaction
from storage.errors import NotFound, StateConflict, counted
from storage.records.samples import VALIDATION_BELOW
from storage.samples.rows import BASE_SET_CHANGED
from storage.tables.model_rows import model_name

CHANGED = "base_set.changed"
_FIRST = """
SELECT id FROM samples WHERE model_id = ? AND label IS NOT NULL AND quarantine IS NULL
ORDER BY id LIMIT ?
"""
_TAKE = """
UPDATE samples SET split_before = split, split = 'base' WHERE id = ? AND split <> 'base'
"""
_RETURN = """
UPDATE samples SET split = split_before, split_before = NULL
WHERE model_id = ? AND split = 'base' AND split_before IS NOT NULL
"""
_HELD_OUT = """
SELECT count(*) FROM samples WHERE model_id = ? AND split = 'base' AND label IS NOT NULL
  AND quarantine IS NULL AND sha256 < ?
"""
_FREEZE = """
INSERT INTO reference_samples (sample_id, model_id)
SELECT id, model_id FROM samples
WHERE model_id = ? AND split = 'validation' AND label IS NOT NULL AND quarantine IS NULL
"""
_COUNT = """
SELECT count(*) AS samples FROM reference_samples JOIN samples ON samples.id = sample_id
WHERE reference_samples.model_id = ?
  AND split = 'validation' AND label IS NOT NULL AND quarantine IS NULL
"""


class BaseSets(Repository):
    """At most one base set per model."""

    @writes
    def take_first(self, transaction: Transaction, model_id: int, count: int) -> int:
        """Add the first `count` labelled samples to the base set; returns how many are new to it.

        Raises StateConflict if there are fewer.
        """
        rows = transaction.execute(_FIRST, (model_id, count)).fetchall()
        if len(rows) < count:
            raise StateConflict(
                f"the model has {counted(len(rows), 'labelled sample')}, fewer than {count:,}; "
                "ask for fewer, or send the base set's samples"
            )
        return take_into_base_set(transaction, model_id, [row["id"] for row in rows])

    @writes
    def give_back(self, transaction: Transaction, model_id: int) -> int:
        """Restore the split of samples that were taken into the base set; returns how many."""
        count = transaction.execute(_RETURN, (model_id,)).rowcount
        transaction.event(CHANGED, model_name(transaction, model_id), {"given_back": count})
        return count

    def held_out(self, model_id: int) -> int:
        """The number of labelled samples of the base set that no job trains on."""
        row = self._readers.one(_HELD_OUT, (model_id, VALIDATION_BELOW))
        return int(row[0])


class ReferenceSets(Repository):
    """At most one reference set per model: ids of samples, not copies of them.

    A sample that is deleted, loses its label, is quarantined or no longer for validation drops out.
    """

    @writes
    def freeze(self, transaction: Transaction, model_id: int) -> int:
        """Make the present labelled validation samples the reference set; returns their number."""
        _clear(transaction, model_id)
        added = transaction.execute(_FREEZE, (model_id,)).rowcount
        _stamp(transaction, model_id, dump_time(transaction.now))
        return added

    @writes
    def remove(self, transaction: Transaction, model_id: int) -> None:
        """Measure new versions on the validation samples alone."""
        _clear(transaction, model_id)
        _stamp(transaction, model_id, None)

    def count(self, model_id: int) -> int:
        """The number of samples of the set that still count."""
        return int(self._readers.one(_COUNT, (model_id,))["samples"])


def take_into_base_set(transaction: Transaction, model_id: int, ids: list[int]) -> int:
    """Add samples to the base set, and record the change; returns how many are new to it."""
    taken = transaction.executemany(_TAKE, [(each,) for each in ids]).rowcount if ids else 0
    transaction.execute(BASE_SET_CHANGED, (dump_time(transaction.now), model_id))
    transaction.event(CHANGED, model_name(transaction, model_id), {"taken": taken})
    return taken


def _clear(transaction: Transaction, model_id: int) -> None:
    transaction.execute("DELETE FROM reference_samples WHERE model_id = ?", (model_id,))


def _stamp(transaction: Transaction, model_id: int, frozen_at: str | None) -> None:
    updated = transaction.execute(
        "UPDATE models SET reference_frozen_at = ? WHERE id = ?", (frozen_at, model_id)
    ).rowcount
    if not updated:
        raise NotFound("this model does not exist any more")
