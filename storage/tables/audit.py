"""The audit log: entries are added and expire, but never change. The newest always stays."""

from __future__ import annotations

import builtins
from collections.abc import Collection, Iterable, Iterator
from datetime import timedelta
from typing import get_args

from storage.database.audit_chain import DAEMON, PRUNED, current, exported, insert_entry
from storage.database.codec import dump, dump_time, load
from storage.database.repository import Repository, writes
from storage.database.rows import matching, record
from storage.database.transaction import Transaction
from storage.records.access import AuditEntry, AuditFilter, EntryKind, NewEntry

PRUNED_AT_ONCE = 10_000
"""Maximum number of entries that are deleted in one transaction, which others wait for."""
_EXPORTED_AT_ONCE = 1000
_LINES = "SELECT * FROM audit WHERE id > ? ORDER BY id LIMIT ?"
_OLD = """
DELETE FROM audit WHERE id IN (
  SELECT id FROM audit
  WHERE id < coalesce((SELECT min(id) FROM audit WHERE at >= ?), 9223372036854775807)
  ORDER BY id LIMIT ?
)
"""
_COUNTS = "SELECT who, count(*) FROM audit WHERE kind = ? GROUP BY who"
_OLDEST = """
DELETE FROM audit WHERE id IN (
  SELECT id FROM audit WHERE kind = ? AND who = ? ORDER BY id LIMIT ?
)
"""
_LAST_PRUNED = """
SELECT facts FROM audit WHERE kind = 'change' AND who = ? ORDER BY id DESC LIMIT 1
"""


class Audit(Repository):
    """Entries by ascending id."""

    @writes
    def add(self, transaction: Transaction, entries: Iterable[NewEntry]) -> None:
        """Store entries that belong to no change."""
        for entry in entries:
            insert_entry(transaction, entry)

    def add_own(self) -> None:
        """Store the entry of the request that this is part of, if it has one, and has not yet."""
        pending = current()
        if pending is not None and not pending.is_done:
            self._writer.write(lambda _: None)

    def list(
        self, where: AuditFilter, *, limit: int, before: int | None = None
    ) -> builtins.list[AuditEntry]:
        """Entries that match the filter, newest first; before: the last id of the previous page."""
        condition, values = matching(
            ("kind = ?", where.kind),
            ("who = ?", where.who),
            ("action = ?", where.action),
            ("model = ?", where.model),
            ("at >= ?", where.since),
            ("at < ?", where.until),
            ("id < ?", before),
        )
        rows = self._readers.all(
            f"SELECT * FROM audit WHERE {condition} ORDER BY id DESC LIMIT ?",  # noqa: S608
            (*values, limit),
        )
        return [record(AuditEntry, row) for row in rows]

    def export(self, *, after: int) -> Iterator[str]:
        """The lines of the entries after an id, many at a time; no reader stays open between."""
        while True:
            rows = self._readers.all(_LINES, (after, _EXPORTED_AT_ONCE))
            if not rows:
                return
            after = rows[-1]["id"]
            yield "".join(map(exported, rows))

    def prune(self, age: timedelta, *, most: int) -> int:
        """Delete entries older than `age`, and all but `most` of each kind; returns how many.

        Of a kind, those go first of whoever has more than an equal share, the oldest first, so that
        nobody's entries, however many, replace those of others. An entry says how many went.
        """

        def delete(transaction: Transaction) -> int:
            row = transaction.execute(_LAST_PRUNED, (DAEMON,)).fetchone()
            before = 0 if row is None else load(row["facts"])["removed_in_all"]
            gone = _prune_some(transaction, dump_time(transaction.now - age), most=most)
            if gone:
                facts = dump({"removed": gone, "removed_in_all": before + gone})
                told = NewEntry("change", DAEMON, DAEMON, PRUNED, "/v1/audit", facts=facts)
                insert_entry(transaction, told)
            return gone

        total = 0
        while gone := self._writer.write(delete):
            total += gone
            if gone < PRUNED_AT_ONCE:
                break
        return total


def _prune_some(transaction: Transaction, before: str, *, most: int) -> int:
    gone = transaction.execute(_OLD, (before, PRUNED_AT_ONCE)).rowcount
    for kind in get_args(EntryKind):
        counts = dict(transaction.execute(_COUNTS, (kind,)).fetchall())
        share = equal_share(counts.values(), most)
        for who, count in counts.items():
            beyond = min(count - share, PRUNED_AT_ONCE - gone)
            if beyond > 0:
                gone += transaction.execute(_OLDEST, (kind, who, beyond)).rowcount
    return gone


def equal_share(counts: Collection[int], most: int) -> int:
    """How many each may keep, so that those who have no more keep all, and all together `most`."""
    left = most
    for rank, count in enumerate(sorted(counts)):
        share = left // (len(counts) - rank)
        if count > share:
            return share
        left -= count
    return most
