"""Transactions of the connection that writes: of one write, or of several that share a COMMIT.

A flush of the disk takes longer than all else of a small upload. Uploads that wait share it: each
runs behind a savepoint of its own and fails alone; what all have appended is flushed, then one
COMMIT keeps the rows of all. If flush or COMMIT fails, every caller is told.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

from storage.database.audited import Pending
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


@dataclass(frozen=True, slots=True, eq=False)
class Write:
    """A write that waits, and who is told what came of it. shares: the COMMIT, with others."""

    fn: Callable[[Transaction], Any]
    future: Future[Any]
    entry: Pending | None
    may_use_ballast: bool
    shares: bool


Done = tuple[Write, Transaction, Any]
"""A write that is kept, its transaction, and what it returned."""


class Commits:
    """Runs writes in the writing thread. refuse: called when nobody knows what is kept."""

    def __init__(
        self, connection: sqlite3.Connection, *, now: Clock, refuse: Callable[[str], None]
    ) -> None:
        self._connection = connection
        self._now = now
        self._refuse = refuse
        self._is_in_doubt = False

    def run(self, writes: list[Write]) -> list[Done]:
        """Keep the writes, by one COMMIT; of several each that failed alone has been told.

        Raises what concerns all of them; then nothing is kept, or nobody knows.
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
        """Undo a write that fails, and tell its caller; the others go on."""
        self._connection.execute("SAVEPOINT alone")
        try:
            yield
        except Exception as error:
            fault = error
            if isinstance(error, sqlite3.Error):
                if primary_code(error) in FATAL:
                    raise
                fault = translate(error)
            if not self._connection.in_transaction:  # SQLite has undone the whole
                raise
            self._connection.execute("ROLLBACK TO alone")
            self._undo([transaction])
            write.future.set_exception(fault)
        self._connection.execute("RELEASE alone")

    def _undo(self, transactions: Iterable[Transaction]) -> None:
        """Take back what was done beside the rows, unless the rows may be kept."""
        for transaction in () if self._is_in_doubt else transactions:
            for action in transaction.undoing:
                guarded("not_undone", action)
            transaction.undoing.clear()

    def _commit(self) -> None:
        """COMMIT; one that fails for another cause than these may be on the disk all the same."""
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if primary_code(error) not in UNDONE_AT_COMMIT:
                self._doubt(error)
            raise

    def _roll_back(self) -> None:
        """Undo a transaction that did not end; its own error is the one that counts."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            self._doubt(error)

    def _doubt(self, error: sqlite3.Error) -> None:
        self._is_in_doubt = True
        self._refuse(str(error))


def guarded(failure: str, action: Callable[[], object]) -> None:
    """Log a failure and go on: start-up sweeps what the action left."""
    try:
        action()
    except Exception:
        _logger.exception(failure)
