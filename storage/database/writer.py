"""The one thread that writes.

SQLite before 3.51.3 can corrupt a WAL database when two connections write or checkpoint at
the same moment (https://sqlite.org/wal.html#walreset), so there is one, and it belongs to this
thread. A write is a function that runs inside BEGIN IMMEDIATE: all of it is kept, or nothing.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from datetime import datetime
from functools import partial
from typing import Any, TypeVar

from storage.database.audited import Pending, current
from storage.database.connection import (
    BUSY_TIMEOUT_MS,
    FATAL,
    SHRINK,
    UNDONE_AT_COMMIT,
    primary_code,
    sqlite3,
    translate,
)
from storage.database.transaction import Event, Transaction
from storage.disk.ballast import Ballast
from storage.errors import Busy, DiskFull, StorageBroken

_T = TypeVar("_T")
_PUT_TIMEOUT_S = 5.0
_TRUNCATE_PATIENCE_MS = 250
_REST_S = 0.5
"""After so long without a write the page cache is given back: the resting daemon stays small."""
_logger = logging.getLogger(__name__)

Clock = Callable[[], datetime]
Subscriber = Callable[[Event], None]


class Writer:
    """Runs writes one after the other. queue_size: how many may wait before Busy is raised.

    ballast: given up when the disk is full. on_broken: called once, with the reason, when the
    database can no longer be written.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        now: Clock,
        queue_size: int,
        ballast: Ballast,
        on_broken: Callable[[str], None],
        put_timeout_s: float = _PUT_TIMEOUT_S,
    ) -> None:
        self._connection = connection
        self._now = now
        self._ballast = ballast
        self._on_broken = on_broken
        self._put_timeout_s = put_timeout_s
        self._tasks: queue.Queue[_Task | None] = queue.Queue(queue_size)
        self._stopped = threading.Event()
        self._broken: str | None = None
        self._breaking = threading.Lock()
        self._subscribers: tuple[Subscriber, ...] = ()
        self._subscribing = threading.Lock()
        self._at_rest: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="storage-writer", daemon=True)
        self._thread.start()

    @property
    def broken(self) -> str | None:
        """Why every write is refused, None while all is well."""
        return self._broken

    def write(self, fn: Callable[[Transaction], _T], *, may_use_ballast: bool = True) -> _T:
        """Run `fn` in a transaction; what it returns is durable.

        On a full disk it is run again with the ballast's room, unless it may not use that: what
        stores much must leave it to what deletes. Raises what `fn` raises, Busy if the queue stays
        full, StorageFull, StorageBroken.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("a subscriber must not write: it runs in the writing thread")
        future: Future[_T] = Future()
        task = (fn, future, may_use_ballast, current())
        try:
            self._tasks.put(task, timeout=self._put_timeout_s)
        except queue.Full:
            waiting = self._tasks.maxsize
            raise Busy(f"{waiting} writes are waiting already; try again in a moment") from None
        if self._stopped.is_set():
            self._refuse_rest()
        return future.result()

    def truncate_wal(self) -> bool:
        """Fold the WAL into the database and empty it, so that it holds no old pages.

        False if a reader kept it from being emptied; try again later. Raises as `write` does.
        """
        found: list[int] = []

        def truncate(transaction: Transaction) -> None:
            connection = transaction.connection
            transaction.after_commit(lambda: found.append(_truncate_wal(connection)))

        self.write(truncate)
        return found == [0]

    def refuse(self, reason: str) -> None:
        """Refuse every write from now on: the database is broken."""
        with self._breaking:
            if self._broken is not None:
                return
            self._broken = reason
        _logger.critical("writer.broken", extra={"fields": {"reason": reason}})
        self._guarded("on_broken_failed", lambda: self._on_broken(reason))

    def require_sound(self) -> None:
        """Raises StorageBroken once writes are refused: the last commit may or may not be kept."""
        if self._broken is not None:
            raise StorageBroken(f"the database failed: {self._broken}; restart the daemon")

    def when_at_rest(self, action: Callable[[], object]) -> None:
        """Have `action` run in the writing thread each time it has rested for a moment."""
        self._at_rest = action

    def subscribe(self, callback: Subscriber) -> None:
        """Call `callback` with each event after its commit, in the writing thread: be quick."""
        with self._subscribing:
            self._subscribers = (*self._subscribers, callback)

    def unsubscribe(self, callback: Subscriber) -> None:
        with self._subscribing:
            self._subscribers = tuple(each for each in self._subscribers if each != callback)

    def close(self) -> None:
        """Finish the queued writes and end the thread; later writes raise Busy."""
        self._tasks.put(None)
        self._thread.join()

    def _run(self) -> None:
        while (task := self._next_task()) is not None:
            fn, future, may_use_ballast, entry = task
            try:
                future.set_result(self._write(fn, entry, may_use_ballast=may_use_ballast))
            except BaseException as error:  # noqa: BLE001 - the writer's door: it goes to the caller
                future.set_exception(error)
        self._stopped.set()
        self._refuse_rest()

    def _next_task(self) -> _Task | None:
        with suppress(queue.Empty):
            return self._tasks.get(timeout=_REST_S)
        self._guarded("not_shrunk", lambda: self._connection.execute(SHRINK))
        self._guarded("not_at_rest", self._at_rest)
        return self._tasks.get()

    def _refuse_rest(self) -> None:
        while True:
            try:
                task = self._tasks.get_nowait()
            except queue.Empty:
                return
            if task is not None:
                task[1].set_exception(Busy("the daemon is stopping; try again when it is back"))

    def _write(
        self, fn: Callable[[Transaction], _T], entry: Pending | None, *, may_use_ballast: bool
    ) -> _T:
        try:
            result = self._transact(fn, entry)
        except DiskFull:
            if not may_use_ballast:
                raise
            self._make_room()
            result = self._transact(fn, entry)
            self._give_room_back()
        if self._ballast.is_out:
            self._guarded("ballast_not_restored", self._ballast.restore)
        return result

    def _make_room(self) -> None:
        self._ballast.drop()
        self._guarded("wal_not_truncated", partial(_truncate_wal, self._connection))

    def _give_room_back(self) -> None:
        """Hand free pages of the database back to the disk, as far as there is room to do so."""
        vacuum = "PRAGMA incremental_vacuum"
        self._guarded("not_vacuumed", lambda: self._connection.execute(vacuum).fetchall())
        self._guarded("wal_not_truncated", partial(_truncate_wal, self._connection))

    def _transact(self, fn: Callable[[Transaction], _T], entry: Pending | None) -> _T:
        self.require_sound()
        transaction = Transaction(self._connection, self._now())
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            result = fn(transaction)
            if entry is not None:
                entry.insert(transaction)
            self._commit()
        except sqlite3.Error as error:
            if primary_code(error) in FATAL:
                self.refuse(str(error))
            raise translate(error) from error
        finally:
            self._roll_back()
        if entry is not None:
            entry.is_done = True
        self._conclude(transaction)
        return result

    def _commit(self) -> None:
        """COMMIT; one that fails for another cause than these may be on the disk all the same."""
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error as error:
            if primary_code(error) not in UNDONE_AT_COMMIT:
                self.refuse(str(error))
            raise

    def _roll_back(self) -> None:
        """Undo a transaction that did not end; its own error is the one that counts."""
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            self.refuse(str(error))

    def _conclude(self, transaction: Transaction) -> None:
        for action in transaction.deferred:
            self._guarded("after_commit_failed", action)
        for event in transaction.events:
            for callback in self._subscribers:
                self._guarded("subscriber_failed", partial(callback, event))

    def _guarded(self, failure: str, action: Callable[[], object]) -> None:
        """Log a failure and go on: the commit stands, and start-up sweeps what the action left."""
        try:
            action()
        except Exception:
            _logger.exception(failure)


def _truncate_wal(connection: sqlite3.Connection) -> int:
    """1 if a reader is in the way."""
    connection.execute(f"PRAGMA busy_timeout = {_TRUNCATE_PATIENCE_MS}").fetchall()
    try:
        return int(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
    finally:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}").fetchall()


_Task = tuple[Callable[[Transaction], Any], Future[Any], bool, Pending | None]
