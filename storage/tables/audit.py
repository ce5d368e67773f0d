"""The audit log: entries are added and expire, but never change."""

from __future__ import annotations

import builtins
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any, get_args

from storage.database.audited import current, insert_entry
from storage.database.codec import dump_time, load, load_time
from storage.database.connection import Readers, sqlite3
from storage.database.transaction import Transaction
from storage.database.writer import Writer
from storage.records.access import AuditEntry, AuditFilter, EntryKind, NewEntry

_OLD = "DELETE FROM audit WHERE at < ?"
_BEYOND = """
DELETE FROM audit WHERE kind = ?1 AND id <= (
  SELECT id FROM audit WHERE kind = ?1 ORDER BY id DESC LIMIT 1 OFFSET ?2
)
"""


class Audit:
    """Entries by ascending id."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    def add(self, entries: Iterable[NewEntry]) -> None:
        """Store entries that belong to no change."""

        def insert(transaction: Transaction) -> None:
            for entry in entries:
                insert_entry(transaction, entry)

        self._writer.write(insert)

    def add_own(self) -> None:
        """Store the entry of the request that this is part of, if it has one, and has not yet."""
        pending = current()
        if pending is not None and not pending.is_done:
            self._writer.write(lambda _: None)

    def list(
        self, where: AuditFilter, *, limit: int, before: int | None = None
    ) -> builtins.list[AuditEntry]:
        """Entries that match the filter, newest first; before: the last id of the previous page."""
        clauses, values = _conditions(where)
        if before is not None:
            clauses.append("id < ?")
            values.append(before)
        with self._readers.snapshot() as connection:
            rows = connection.execute(
                f"SELECT * FROM audit WHERE {' AND '.join(clauses)} "  # noqa: S608 - our own
                "ORDER BY id DESC LIMIT ?",
                (*values, limit),
            ).fetchall()
        return [_entry(row) for row in rows]

    def prune(self, age: timedelta, *, most: int) -> int:
        """Delete entries older than `age`, and all but `most` of each kind; returns how many."""

        def delete(transaction: Transaction) -> int:
            gone = transaction.execute(_OLD, (dump_time(transaction.now - age),)).rowcount
            for kind in get_args(EntryKind):
                gone += transaction.execute(_BEYOND, (kind, most)).rowcount
            return gone

        return self._writer.write(delete)


def _conditions(where: AuditFilter) -> tuple[list[str], list[Any]]:
    clauses, values = ["1"], builtins.list[Any]()
    for clause, value in (
        ("kind = ?", where.kind),
        ("who = ?", where.who),
        ("action = ?", where.action),
        ("model = ?", where.model),
        ("at >= ?", where.since),
        ("at < ?", where.until),
    ):
        if value is not None:
            clauses.append(clause)
            values.append(dump_time(value) if isinstance(value, datetime) else value)
    return clauses, values


def _entry(row: sqlite3.Row) -> AuditEntry:
    facts = None if row["facts"] is None else load(row["facts"])
    return AuditEntry(**{**dict(row), "at": load_time(row["at"]), "facts": facts})
