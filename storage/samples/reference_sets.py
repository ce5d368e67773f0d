"""Reference sets: frozen validation samples, so that versions months apart can be compared."""

from __future__ import annotations

from storage.database.codec import dump_time
from storage.database.repository import Repository, writes
from storage.database.transaction import Transaction
from storage.errors import NotFound

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
        with self._readers.snapshot() as connection:
            return int(connection.execute(_COUNT, (model_id,)).fetchone()["samples"])


def _clear(transaction: Transaction, model_id: int) -> None:
    transaction.execute("DELETE FROM reference_samples WHERE model_id = ?", (model_id,))


def _stamp(transaction: Transaction, model_id: int, frozen_at: str | None) -> None:
    updated = transaction.execute(
        "UPDATE models SET reference_frozen_at = ? WHERE id = ?", (frozen_at, model_id)
    ).rowcount
    if not updated:
        raise NotFound("this model does not exist any more")
