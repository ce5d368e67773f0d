"""The curves of jobs: a row for each point while a job runs, one row of all once it has ended."""

from __future__ import annotations

import builtins
import zlib
from collections.abc import Iterable

from storage.database.codec import dump, load
from storage.database.connection import sqlite3
from storage.database.repository import Repository, writes
from storage.database.transaction import Transaction
from storage.records.jobs import MetricPoint

_ADD = """
INSERT INTO metrics (job_id, step, epoch, measured) VALUES (?, ?, ?, ?)
ON CONFLICT DO UPDATE SET
  epoch = excluded.epoch, measured = json_patch(measured, excluded.measured)
"""
_AFTER = "SELECT * FROM metrics WHERE job_id = ? AND step > ? ORDER BY step LIMIT ?"
MOST_PACKED = 10_000
"""Longer curves stay rows: packing them would hold up other writes, and each page reads all."""


class Metrics(Repository):
    """Points by job and step: one point per step, with every value measured there."""

    @writes
    def add(
        self, transaction: Transaction, job_id: int, points: builtins.list[MetricPoint]
    ) -> None:
        """Add values; at an existing step they are added, or replace those of the same name.

        Raises ValueError if a value is not finite, NotFound if there is no such job.
        """
        if packed := _packed(transaction.connection, job_id):
            transaction.executemany(_ADD, _rows(job_id, packed))
            transaction.execute("DELETE FROM curves WHERE job_id = ?", (job_id,))
        transaction.executemany(_ADD, _rows(job_id, points))

    def list(
        self, job_id: int, limit: int, after_step: int | None = None
    ) -> builtins.list[MetricPoint]:
        """Points after `after_step`, by step."""
        after = -1 if after_step is None else after_step
        with self._readers.snapshot() as connection:
            packed = _packed(connection, job_id)
            rows = connection.execute(_AFTER, (job_id, after, limit)).fetchall()
        return [point for point in packed if point.step > after][:limit] or _points(rows)


def pack_curve(transaction: Transaction, job_id: int) -> None:
    """Put the points of a job that ends into one row, which takes a fifth of the space."""
    rows = transaction.execute(_AFTER, (job_id, -1, MOST_PACKED + 1)).fetchall()
    if 0 < len(rows) <= MOST_PACKED:
        transaction.execute("DELETE FROM metrics WHERE job_id = ?", (job_id,))
        points = dump([[point.step, point.epoch, point.values] for point in _points(rows)])
        packed = zlib.compress(points.encode())
        transaction.execute("INSERT INTO curves VALUES (?, ?)", (job_id, packed))


def _packed(connection: sqlite3.Connection, job_id: int) -> list[MetricPoint]:
    """The points of a job that has ended; none if they are rows."""
    row = connection.execute("SELECT points FROM curves WHERE job_id = ?", (job_id,)).fetchone()
    if row is None:
        return []
    points = load(zlib.decompress(row["points"]).decode())
    return [MetricPoint(step, epoch, values) for step, epoch, values in points]


def _rows(job_id: int, points: Iterable[MetricPoint]) -> list[tuple[int, int, int, str]]:
    return [(job_id, point.step, point.epoch, dump(point.values)) for point in points]


def _points(rows: Iterable[sqlite3.Row]) -> list[MetricPoint]:
    return [MetricPoint(row["step"], row["epoch"], load(row["measured"])) for row in rows]
