"""The audit entry of a request, stored in the transaction of what the request changes.

The HTTP layer knows who requests a change; storage commits it. The entry travels with the context
of the request, into its threads and tasks, and the first write stores it. So no crash can keep a
change without its entry.
"""

from __future__ import annotations

from contextvars import ContextVar

from msgspec.structs import replace

from storage.database.audit_chain import insert_entry
from storage.database.transaction import Transaction
from storage.records.access import NewEntry


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
