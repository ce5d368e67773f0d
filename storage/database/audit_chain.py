"""The audit log as a chain: each entry has the hash of the one before, and its own (SHA-256).

The line of an entry, as it is exported, ends with its hash: that of the line without it. So an
export is all that it takes to check that no entry in it was changed, and that the log continues it.

The entry of a request is stored in the transaction of what the request changes. The HTTP layer
knows who requests a change; storage commits it. The entry travels with the context of the request,
into its threads and tasks, and the first write stores it. So no crash can keep a change without its
entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from hashlib import sha256
from typing import Any

from msgspec.structs import replace

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


class Pending:
    """An entry that is stored with the first write of its context, and only once."""

    def __init__(self, entry: NewEntry) -> None:
        self.entry = entry
        self.is_done = False

    def insert(self, transaction: Transaction) -> None:
        """Add the entry to a transaction, unless it is stored or its request is over."""
        if not self.is_done:
            insert_entry(transaction, self.entry)


_CURRENT: ContextVar[Pending | None] = ContextVar("audit", default=None)


def begin(entry: NewEntry) -> Pending:
    """Make the next write of this context store the entry."""
    pending = Pending(entry)
    _CURRENT.set(pending)
    return pending


def about(model: str) -> None:
    """Set the model of the context's entry if the request's path does not name it."""
    pending = _CURRENT.get()
    if pending is not None:
        pending.entry = replace(pending.entry, model=model)


def current() -> Pending | None:
    """The entry that the context's next write stores."""
    return _CURRENT.get()
