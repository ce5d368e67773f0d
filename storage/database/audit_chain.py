"""The audit log as a chain: each entry has the hash of the one before, and its own (SHA-256).

The line of an entry, as it is exported, ends with its hash: that of the line without it. So an
export is all that it takes to check that no entry in it was changed, and that the log continues it.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

from storage.database.codec import dump, dump_time, load
from storage.database.transaction import Transaction
from storage.records.access import NewEntry

FIRST = bytes(32)
"""What the first entry has in place of the hash of the one before."""
DAEMON, PRUNED = "daemon", "prune_audit"
"""Who removes old entries, and the action of the entry that says how many. Its facts are `removed`,
and `removed_in_all` since the log began.
"""
_TOLD = ("kind", "who", "address", "action", "path", "model", "code", "count", "facts")
_FIELDS = ("id", "at", *_TOLD, "previous")
_LAST = """
SELECT
  coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'audit'), 0),
  (SELECT hash FROM audit ORDER BY id DESC LIMIT 1)
"""


def insert_entry(transaction: Transaction, entry: NewEntry) -> None:
    """Add an entry to the chain; its time defaults to the transaction's."""
    last_id, previous = transaction.execute(_LAST).fetchone()
    row = {
        "id": last_id + 1,
        "at": dump_time(entry.at or transaction.now),
        **{name: getattr(entry, name) for name in _TOLD},
        "previous": previous or FIRST,
    }
    digest = sha256(_line(row).encode()).digest()
    transaction.insert("audit", {**row, "hash": digest})


def exported(row: Mapping[str, Any]) -> str:
    """The line of a stored entry."""
    return f'{_line(row)[:-1]},"hash":"{row["hash"].hex()}"}}\n'


def _line(row: Mapping[str, Any]) -> str:
    facts = row["facts"]
    told = {
        **{name: row[name] for name in _FIELDS},
        "facts": None if facts is None else load(facts),
        "previous": row["previous"].hex(),
    }
    return dump(told, ensure_ascii=True)
