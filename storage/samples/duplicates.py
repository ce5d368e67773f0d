"""Samples with the same content."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from storage.database.connection import sqlite3


def find_duplicates(
    connection: sqlite3.Connection, model_id: int, *, limit: int
) -> list[tuple[str, list[int]]]:
    """(SHA-256, ids) by the first id of each, at most `limit` groups.

    There is no index on digests: it would slow every upload for what is asked once in a while.
    """
    rows = connection.execute(
        "SELECT id, substr(sha256, 1, 8) FROM samples WHERE model_id = ? ORDER BY id", (model_id,)
    )
    table = np.fromiter(
        ((row[0], int.from_bytes(row[1], "big", signed=True)) for row in rows),
        np.dtype([("id", np.int64), ("prefix", np.int64)]),
    )
    found: list[tuple[str, list[int]]] = []
    for ids in _groups(table)[:limit]:
        marks = ", ".join("?" * len(ids))
        same = connection.execute(
            f"SELECT id, sha256 FROM samples WHERE id IN ({marks}) ORDER BY id",  # noqa: S608
            ids,
        ).fetchall()
        found += _same_content(same)
    return found


def _groups(table: NDArray[np.void]) -> list[list[int]]:
    """Ids whose digests begin alike, two at least and a thousand at most, by the first of each."""
    order = np.argsort(table["prefix"], kind="stable")
    prefixes = table["prefix"][order]
    groups = np.split(table["id"][order], np.flatnonzero(np.diff(prefixes)) + 1)
    return sorted(group[:1000].tolist() for group in groups if len(group) > 1)


def _same_content(
    rows: list[sqlite3.Row],
) -> Iterator[tuple[str, list[int]]]:
    by_digest: dict[str, list[int]] = {}
    for row in rows:
        by_digest.setdefault(row["sha256"].hex(), []).append(row["id"])
    return ((digest, ids) for digest, ids in by_digest.items() if len(ids) > 1)
