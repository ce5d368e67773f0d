"""The one thread that writes.

SQLite before 3.51.3 can corrupt a WAL database when two connections write or checkpoint at
the same moment (https://sqlite.org/wal.html#walreset), so there is one, and it belongs to this
thread. A write is a function that runs inside BEGIN IMMEDIATE: all of it is kept, or nothing.
Waiting writes that may share a COMMIT are committed together.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from storage.database.audit_chain import current
from storage.database.codec import Clock
from storage.database.commits import Commits, Write, guarded
from storage.database.connection import BUSY_TIMEOUT_MS, SHRINK, sqlite3
from storage.database.transaction import Happening, Transaction
from storage.disk.ballast import Ballast
from storage.disk.presence import Presence
from storage.errors import Busy, DiskFull, StorageBroken

_T = TypeVar("_T")
_PUT_TIMEOUT_S = 5.0
_TRUNCATE_PATIENCE_MS = 250
_MOST_TOGETHER = 64
_REST_S = 0.5
"""After this long without a write the page cache is freed: the idle daemon stays small."""
STOPPING = "the daemon is stopping; try again when it is back"
_logger = logging.getLogger(__name__)

Subscriber = Callable[[Happening], None]
_Result = tuple[Write, Any]
_END = Write(lambda _: None, Future(), None, may_use_ballast=False, shares=False)
"""Ends the writing thread."""


class Writer:
    """Runs writes one after the other. queue_size: how many may wait before Busy is raised.

    path: of the database. ballast: removed when the disk is full. on_broken: called once, with the
    reason, when the database can no longer be written.
    """

    def __init__(
        self,
        connection: sqlite3.Connection,
        *,
        now: Clock,
        queue_size: int,
        path: Path,
        ballast: Ballast,
        on_broken: Callable[[str], None],
    ) -> None:
        self._connection = connection
        self._ballast = ballast
        self._presence = Presence(path)
        self._on_broken = on_broken
        self._put_timeout_s = _PUT_TIMEOUT_S
        self._tasks: queue.Queue[Write] = queue.Queue(queue_size)
        self._held: Write | None = None
        self._commits = Commits(connection, now=now, refuse=self.refuse)
        self._stopped = threading.Event()
        self._broken: str | None = None
        self._breaking = threading.Lock()
        self._subscribers: list[Subscriber] = []
        self._at_rest: list[Callable[[], object]] = []
        self._thread = threading.Thread(target=self._run, name="storage-writer", daemon=True)
        self._thread.start()

    @property
    def broken(self) -> str | None:
        """Why every write is refused, None if they are not."""
        return self._broken

    def write(
        self,
        fn: Callable[[Transaction], _T],
        *,
        may_use_ballast: bool = True,
        shares: bool = False,
    ) -> _T:
        """Run `fn` in a transaction and return its result, once that is durable.

        On a full disk it runs again with the ballast's room if it may use that: large writes must
        leave it to deletions. shares: may share a COMMIT with waiting writes that may too. Each
        fails alone, but if the flush or the COMMIT fails, all do; none uses the ballast, and other
        connections may not see yet what was written before it.
        Raises what `fn` raises, Busy if the queue stays full, StorageFull, StorageBroken.
        """
        if threading.current_thread() is self._thread:
            raise RuntimeError("a subscriber must not write: it runs in the writing thread")
        future: Future[_T] = Future()
        write = Write(fn, future, current(), may_use_ballast and not shares, shares)
        try:
            self._tasks.put(write, timeout=self._put_timeout_s)
        except queue.Full:
            waiting = self._tasks.maxsize
            raise Busy(f"{waiting} writes are waiting already; try again in a moment") from None
        if self._stopped.is_set():
            self._refuse_rest()
        return future.result()

    def truncate_wal(self) -> bool:
        """Checkpoint the WAL and truncate it, so that it holds no old pages.

        False if a reader prevented that; try again later. Raises as `write` does.
        """
        results: list[int] = []

        def truncate(transaction: Transaction) -> None:
            connection = transaction.connection
            transaction.after_commit(lambda: results.append(_truncate_wal(connection)))

        self.write(truncate)
        return results == [0]

    def refuse(self, reason: str) -> None:
        """Refuse every write from now on: the database is broken."""
        with self._breaking:
            if self._broken is not None:
                return
            self._broken = reason
        _logger.critical("writer.broken", extra={"fields": {"reason": reason}})
        guarded("on_broken_failed", lambda: self._on_broken(reason))

    def require_sound(self) -> None:
        """Raises StorageBroken once writes are refused: the last commit may or may not be kept.

        From any thread. They are refused once the database is no longer at its path.
        """
        if self._broken is None:
            try:
                self._presence.require()
            except StorageBroken as gone:
                self.refuse(gone.detail)
        if self._broken is not None:
            raise StorageBroken(f"the database failed: {self._broken}; restart the daemon")

    def require_running(self) -> None:
        """Raises Busy once the writing thread has ended. From any thread."""
        if self._stopped.is_set():
            raise Busy(STOPPING)

    def when_at_rest(self, action: Callable[[], object]) -> None:
        """Run `action` in the writing thread each time that has been idle for a moment, and at its
        end.
        """
        self._at_rest.append(action)

    def subscribe(self, callback: Subscriber) -> None:
        """Call `callback` with each event after its commit, in the writing thread; do not block."""
        self._subscribers.append(callback)

    def close(self) -> None:
        """Finish the queued writes and end the thread; later writes raise Busy."""
        self._tasks.put(_END)
        self._thread.join()

    def _run(self) -> None:
        while (writes := self._next_writes())[0] is not _END:
            try:
                for write, result in self._write(writes):
                    write.future.set_result(result)
            except BaseException as error:  # noqa: BLE001 - the thread's outermost handler: callers get it
                for write in writes:
                    if not write.future.done():
                        write.future.set_exception(error)
        self._stopped.set()
        self._refuse_rest()
        self._rest()

    def _next_writes(self) -> list[Write]:
        """The next write, and those queued right after it if all of them may share a COMMIT."""
        writes = [self._held or self._next_write()]
        self._held = None
        while writes[-1].shares and len(writes) < _MOST_TOGETHER:
            try:
                task = self._tasks.get_nowait()
            except queue.Empty:
                break
            if not task.shares:
                self._held = task
                break
            writes.append(task)
        return writes

    def _next_write(self) -> Write:
        with suppress(queue.Empty):
            return self._tasks.get(timeout=_REST_S)
        self._rest()
        return self._tasks.get()

    def _rest(self) -> None:
        guarded("not_shrunk", lambda: self._connection.execute(SHRINK))
        for action in self._at_rest:
            guarded("not_at_rest", action)

    def _refuse_rest(self) -> None:
        while True:
            try:
                write = self._tasks.get_nowait()
            except queue.Empty:
                return
            if write is not _END:
                write.future.set_exception(Busy(STOPPING))

    def _write(self, writes: list[Write]) -> list[_Result]:
        """Results of the committed writes; the futures of those that failed alone have failed."""
        try:
            return self._transact(writes)
        except DiskFull:
            if not writes[0].may_use_ballast:
                raise
            self._make_room()
            try:
                return self._transact(writes)
            finally:
                self._give_room_back()
        finally:
            if self._broken is None and self._ballast.is_out:
                guarded("ballast_not_restored", self._ballast.restore)

    def _make_room(self) -> None:
        self._ballast.drop()
        guarded("wal_not_truncated", partial(_truncate_wal, self._connection))

    def _give_room_back(self) -> None:
        """Return the database's free pages to the file system, as far as there is room for that."""
        vacuum = "PRAGMA incremental_vacuum"
        guarded("not_vacuumed", lambda: self._connection.execute(vacuum).fetchall())
        guarded("wal_not_truncated", partial(_truncate_wal, self._connection))

    def _transact(self, writes: list[Write]) -> list[_Result]:
        self.require_sound()
        done = self._commits.run(writes)
        self.require_sound()  # or what was committed is lost
        for _, transaction, _ in done:
            self._conclude(transaction)
        return [(write, result) for write, _, result in done]

    def _conclude(self, transaction: Transaction) -> None:
        for action in transaction.deferred:
            guarded("after_commit_failed", action)
        for event in transaction.events:
            for callback in self._subscribers:
                guarded("subscriber_failed", partial(callback, event))


def _truncate_wal(connection: sqlite3.Connection) -> int:
    """0, or 1 if a reader prevented it."""
    connection.execute(f"PRAGMA busy_timeout = {_TRUNCATE_PATIENCE_MS}").fetchall()
    try:
        return int(connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
    finally:
        connection.execute(f"PRAGMA busy_timeout = {BUSY_TIMEOUT_MS}").fetchall()
