"""Figures over a model's samples."""

from __future__ import annotations

from storage.database.connection import Readers
from storage.records.models import SampleCounts
from storage.records.samples import Split
from storage.samples.duplicates import find_duplicates
from storage.tables.model_rows import no_model

_COUNTS = """
SELECT
  coalesce(sum(count) FILTER (WHERE split = 'train' AND class <> -1), 0) AS train,
  coalesce(sum(count) FILTER (WHERE split = 'validation' AND class <> -1), 0) AS validation,
  coalesce(sum(count) FILTER (WHERE class = -1), 0) AS unlabelled
FROM sample_counts WHERE model_id = ?
"""
_LABEL_COUNTS = """
SELECT split, class, count FROM sample_counts
WHERE model_id = ? AND class >= -1 AND count > 0 ORDER BY split, class
"""


class SampleStats:
    """What a model's samples come to. Only `duplicates` and `quarantined` look at their rows."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    def counts(self, model_id: int) -> SampleCounts:
        """Kept by triggers, so this takes no longer for a million samples."""
        with self._readers.snapshot() as connection:
            row = connection.execute(_COUNTS, (model_id,)).fetchone()
        return SampleCounts(**dict(row))

    def label_counts(self, model_id: int) -> list[tuple[Split, int | None, int]]:
        """(split, class index, samples); class None: those without a label.

        Labels that are not class indices are in no class, and are not listed.
        """
        with self._readers.snapshot() as connection:
            rows = connection.execute(_LABEL_COUNTS, (model_id,)).fetchall()
        return [
            (Split(row["split"]), None if row["class"] < 0 else row["class"], row["count"])
            for row in rows
        ]

    def size_bytes(self, model_id: int) -> int:
        """Bytes of all samples together. Raises NotFound."""
        return self._number("SELECT sample_bytes FROM models WHERE id = ?", model_id)

    def quarantined(self, model_id: int) -> int:
        """Samples that are set aside; they count in `counts` as well."""
        return self._number(
            "SELECT count(*) FROM samples WHERE model_id = ? AND quarantine IS NOT NULL", model_id
        )

    def duplicates(self, model_id: int, limit: int) -> list[tuple[str, list[int]]]:
        """(SHA-256, ids) of samples with the same content, by their first id; at most `limit`.

        Reads every row once: some 16 bytes of memory a sample.
        """
        with self._readers.snapshot() as connection:
            return find_duplicates(connection, model_id, limit=limit)

    def _number(self, sql: str, model_id: int) -> int:
        with self._readers.snapshot() as connection:
            row = connection.execute(sql, (model_id,)).fetchone()
        if row is None:
            raise no_model(model_id)
        return int(row[0])
