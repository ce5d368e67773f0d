"""Transactions of the writing connection: of one write, or of several that share a COMMIT.

A flush of the disk takes longer than the rest of a small upload. Waiting uploads share it: each
runs in its own savepoint and fails alone; the appended bytes of all are flushed, then one COMMIT
keeps the rows of all. If the flush or the COMMIT fails, every caller gets the error.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from typing import Any

from msgspec import Struct

from storage.database.audit_chain import Pending
from storage.database.codec import Clock
from storage.database.connection import (
    FATAL,
    UNDONE_AT_COMMIT,
    primary_code,
    sqlite3,
    translate,
)
from storage.database.transaction import Appended, Transaction
from storage.disk.durable import file_faults

_logger = logging.getLogger(__name__)


class Write(Struct, frozen=True, eq=False):
    """A queued write and the future of its result. shares: may share a COMMIT with others."""

    fn: Callable[[Transaction], Any]
    future: Future[Any]
    entry: Pending | None
    may_use_ballast: bool
    shares: bool


Done = tuple[Write, Transaction, Any]
"""A committed write, its transaction, and its result."""


class Commits:
    """Runs writes in the writing thread. refuse: called when it is unknown what was committed."""

    def __init__(
        self, connection: sqlite3.Connection, *, now: Clock, refuse: Callable[[str], None]
    ) -> None:
        self._connection = connection
        self._now = now
        self._refuse = refuse
        self._is_in_doubt = False

    def run(self, writes: list[Write]) -> list[Done]:
        """Commit the writes together; one that failed alone is left out, and its future has failed.

        Raises errors that concern all of them; then nothing is kept, or it is unknown.
        """
        files, done, begun = Appended(), list[Done](), list[Transaction]()
        try:
            with self._transaction(files):
                for write in writes:
                    begun.append(transaction := Transaction(self._connection, self._now(), files))
                    with self._alone(write, transaction) if write.shares else nullcontext():
                        result = write.fn(transaction)
                        if write.entry is not None:
                            write.entry.insert(transaction)
                        done.append((write, transaction, result))
        except BaseException:
            self._undo(reversed(begun))
            raise
        finally:
            guarded("not_closed", files.close)
        for write, _, _ in done:
            if write.entry is not None:
                write.entry.is_done = True
        return done

    @contextmanager
    def _transaction(self, files: Appended) -> Iterator[None]:
        """BEGIN, and COMMIT once the files are flushed."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            with file_faults("cannot flush what the rows name"):
                files.sync()
            self._commit()
        except sqlite3.Error as error:
            if primary_code(error) in FATAL:
                self._doubt(error)
            raise translate(error) from error
        finally:
            self._roll_back()

    @contextmanager
    def _alone(self, write: Write, transaction: Transaction) -> Iterator[None]:
        """Undo a write that fails, and fail its future; the others continue."""
        self._connection.execute("SAVEPOINT alone")
        try:
            yield
        except Exception as error:
            fault = error
            if isinstance(error, sqlite3.Error):
                if primary_code(error) in FATAL:
                    raise
                fault = translate(error)
            if not self._connection.in_transaction:  # SQLite has rolled back everything
                raise
            self._connection.execute("ROLLBACK TO alone")
            self._undo([transaction])
            write.future.set_exception(fault)
        self._connection.execute("RELEASE alone")

    def _undo(self, transactions: Iterable[Transaction]) -> None:
        """Undo what was done besides the rows, unless the rows may have been kept."""
        for transaction in () if self._is_in_doubt else transactions:
            for action in transaction.undoing:
                guarded("not_undone", action)
            transaction.undoing.clear()

    def _commit(self) -> None:
        """COMMIT; unless its error is in `UNDONE_AT_COMMIT`, a failed one may still be on disk."""
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if primary_code(error) not in UNDONE_AT_COMMIT:
                self._doubt(error)
            raise

    def _roll_back(self) -> None:
        """Roll back a transaction that did not end; its own error takes precedence."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            self._doubt(error)

    def _doubt(self, error: sqlite3.Error) -> None:
        self._is_in_doubt = True
        self._refuse(str(error))


def guarded(failure: str, action: Callable[[], object]) -> None:
    """Run an action; log its failure and continue: the next start cleans up after it."""
    try:
        action()
    except Exception:
        _logger.exception(failure)
