"""Statistics of a model's samples."""

from __future__ import annotations

import hashlib
from itertools import groupby
from operator import itemgetter

from msgspec import Struct

from storage.database.codec import load
from storage.database.connection import Readers, sqlite3
from storage.records.models import SampleCounts
from storage.records.samples import Split
from storage.tables.model_rows import SAMPLE_COUNTS, no_model

_COUNTS = f"SELECT {SAMPLE_COUNTS} FROM sample_counts WHERE model_id = ?"  # noqa: S608 - our own
_LABEL_COUNTS = """
SELECT split, class, count FROM sample_counts
WHERE model_id = ? AND class >= -1 AND count > 0 ORDER BY split, class
"""
_SIZES = """
SELECT
  (SELECT coalesce(sum(size_bytes), 0) FROM sample_owners WHERE model_id = models.id) AS size_bytes,
  (SELECT count(*) FROM samples WHERE model_id = models.id AND quarantine IS NOT NULL)
    AS quarantined
FROM models WHERE id = ?
"""

# Digests with the same prefix: almost always equal ones.
_ALIKE = """
SELECT min(id) AS first, substr(sha256, 1, 8) AS prefix FROM samples WHERE model_id = ?
GROUP BY prefix HAVING count(*) > 1 ORDER BY first LIMIT ?
"""
_OF_PREFIX = """
SELECT sha256, id FROM samples WHERE model_id = ? AND substr(sha256, 1, 8) = ?
ORDER BY sha256, id LIMIT 1000
"""

_VALIDATION = """
SELECT id, label FROM samples
WHERE model_id = ? AND split = 'validation' AND label IS NOT NULL AND quarantine IS NULL ORDER BY id
"""

_DIFFERENT = """
SELECT count(DISTINCT sha256) FROM samples
WHERE model_id = ? AND split = 'validation' AND label IS NOT NULL AND quarantine IS NULL
"""

LabelCount = tuple[Split, int | None, int]
"""(split, class index, number of samples); class None: without a label."""


class Totals(Struct, frozen=True):
    """A model's samples. size_bytes: of all together. quarantined: `counts` includes them."""

    counts: SampleCounts
    labels: list[LabelCount]
    size_bytes: int
    quarantined: int


class SampleStats:
    """Statistics of a model's samples, most of them without reading the samples' rows."""

    def __init__(self, readers: Readers) -> None:
        self._readers = readers

    def counts(self, model_id: int) -> SampleCounts:
        """Numbers of samples, maintained by SQL triggers, so fast even for a million."""
        return self.balance(model_id)[0]

    def label_counts(self, model_id: int) -> list[LabelCount]:
        """Numbers of samples by split and class; labels that are not class indices are left out."""
        return self.balance(model_id)[1]

    def balance(self, model_id: int) -> tuple[SampleCounts, list[LabelCount]]:
        """`counts` and `label_counts`, consistent with each other."""
        return self._readers.read(_balance, model_id)

    def totals(self, model_id: int) -> Totals:
        """All of them, consistent with each other. Raises NotFound."""
        with self._readers.snapshot() as connection:
            sizes = connection.execute(_SIZES, (model_id,)).fetchone()
            if sizes is None:
                raise no_model(model_id)
            return Totals(*_balance(connection, model_id), **dict(sizes))

    def validation_digest(self, model_id: int) -> str:
        """A digest of the labelled validation samples: changes whenever they or their labels do."""
        digest = hashlib.sha256()
        with self._readers.snapshot() as connection:
            for row in connection.execute(_VALIDATION, (model_id,)):
                digest.update(repr(tuple(row)).encode())
        return digest.hexdigest()

    def different_validation(self, model_id: int) -> int:
        """How many labelled validation samples differ in their inputs."""
        return int(self._readers.one(_DIFFERENT, (model_id,))[0])

    def duplicates(self, model_id: int, limit: int) -> list[tuple[str, list[int]]]:
        """(SHA-256, ids) of samples with the same content, by their first id; at most `limit`.

        Reads the index of digests once.
        """
        alike: list[tuple[str, list[int]]] = []
        with self._readers.snapshot() as connection:
            for row in connection.execute(_ALIKE, (model_id, limit)).fetchall():
                same = connection.execute(_OF_PREFIX, (model_id, row["prefix"])).fetchall()
                by_digest = groupby(same, key=itemgetter("sha256"))
                groups = [(sha256.hex(), [row["id"] for row in rows]) for sha256, rows in by_digest]
                alike += [(sha256, ids) for sha256, ids in groups if len(ids) > 1]
        return alike


def _balance(
    connection: sqlite3.Connection, model_id: int
) -> tuple[SampleCounts, list[LabelCount]]:
    counts = load(connection.execute(_COUNTS, (model_id,)).fetchone()[0])
    rows = connection.execute(_LABEL_COUNTS, (model_id,)).fetchall()
    return SampleCounts(**counts), [
        (Split(row["split"]), None if row["class"] < 0 else row["class"], row["count"])
        for row in rows
    ]
