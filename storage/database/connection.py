"""Connections to the database: one that writes, a few that read.

Two SQLite libraries in one process break each other's locks, so every module of this package
imports `sqlite3` from here, and this one prefers the library that sqlite-utils prefers.
"""

from __future__ import annotations

import queue
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import chain, islice
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    import sqlite3
else:
    try:
        import pysqlite3 as sqlite3
    except ImportError:
        import sqlite3

from storage.errors import (
    AlreadyExists,
    Busy,
    DatabaseDamaged,
    DiskFull,
    HoneError,
    NotFound,
    StorageBroken,
)

__all__ = [
    "Readers",
    "check_database",
    "connect_reader",
    "connect_writer",
    "insert_rows",
    "sqlite3",
    "translate",
    "translated",
]

_P = ParamSpec("_P")
_R = TypeVar("_R")
Parameters = Sequence[Any] | Mapping[str, Any]

_BUSY, _LOCKED, _NOMEM, _IOERR, _CORRUPT, _FULL, _CANTOPEN = 5, 6, 7, 10, 11, 13, 14
_CONSTRAINT, _NOTADB = 19, 26
# Python 3.10 has no `sqlite_errorcode`; these texts are SQLite's own and fixed per code.
_CODE_BY_TEXT = {
    "database is locked": _BUSY,
    "database table is locked": _LOCKED,
    "disk I/O error": _IOERR,
    "database disk image is malformed": _CORRUPT,
    "database or disk is full": _FULL,
    "unable to open database file": _CANTOPEN,
    "out of memory": _NOMEM,
    "file is not a database": _NOTADB,
}
_PASSING = {
    _BUSY: "another program holds the database",
    _LOCKED: "another program holds the database",
    _NOMEM: "too little memory is free",
    _CANTOPEN: "too many files are open",
}
FATAL = frozenset({_IOERR, _CORRUPT, _NOTADB})
UNDONE_AT_COMMIT = frozenset({_BUSY, _LOCKED, _FULL, _CONSTRAINT})
"""Error codes of a COMMIT that failed before its last frame was in the log."""
# Each connection has a cache of its own; the system's cache holds the pages too.
_WRITER_CACHE_KIB = 1024
_READER_CACHE_KIB = 256
# A large upload changes so many pages, 8 MB, before any is written to the WAL, where it may have to
# be written again. SQLite takes a number whose lowest byte is 0, such as 2048, for OFF.
_CHANGED_PAGES = 2000
BUSY_TIMEOUT_MS = 5000
SHRINK = "PRAGMA shrink_memory"
_ROWS_A_STATEMENT = 64
_JOURNAL_SIZE_LIMIT_BYTES = 64 << 20


def primary_code(error: sqlite3.Error) -> int | None:
    """SQLite's primary result code of an error, None if it has none."""
    code: int | None = getattr(error, "sqlite_errorcode", None)
    return _CODE_BY_TEXT.get(str(error)) if code is None else code & 0xFF


def translate(error: sqlite3.Error) -> HoneError:
    """The HoneError for an error of SQLite."""
    code, text = primary_code(error), str(error)
    if code == _FULL:
        return DiskFull(f"the database cannot grow: {text}; free some space and try again")
    if code in FATAL:
        fault = StorageBroken if code == _IOERR else DatabaseDamaged
        return fault(f"the database failed: {text}; restart the daemon")
    if code in _PASSING:
        return Busy(f"{_PASSING[code]}: {text}; try again in a moment")
    if text.startswith("UNIQUE constraint failed"):
        return AlreadyExists(f"this exists already: {text}")
    if text.startswith("FOREIGN KEY constraint failed"):
        return NotFound("the thing that this row refers to does not exist, or is still referred to")
    return StorageBroken(f"the database refused a statement: {text}")


@contextmanager
def translated() -> Iterator[None]:
    """Raise errors of SQLite as `translate` returns them."""
    try:
        yield
    except sqlite3.Error as error:
        raise translate(error) from error


def check_database(
    connection: sqlite3.Connection, check: str = "quick_check", *, name: str = "the database"
) -> None:
    """Raises DatabaseDamaged if a check of SQLite finds something, by default of the structure."""
    with translated():
        findings = [row[0] for row in connection.execute(f"PRAGMA {check}")]
    if findings != ["ok"]:
        raise DatabaseDamaged(f"{name} is damaged ({findings[0]})")


def connect_writer(path: Path) -> sqlite3.Connection:
    """Open the writing connection, and create the database if there is none.

    Transactions are begun explicitly: `isolation_level=None` keeps Python from opening deferred
    ones.
    """
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    connection.row_factory = sqlite3.Row
    try:
        _set_up_writer(connection)
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def _set_up_writer(connection: sqlite3.Connection) -> None:
    for pragma in (
        f"busy_timeout = {BUSY_TIMEOUT_MS}",
        "auto_vacuum = INCREMENTAL",  # takes effect only before the first table, and before WAL
        "journal_mode = WAL",
        "synchronous = FULL",
        "fullfsync = ON",
        "foreign_keys = ON",
        "secure_delete = ON",
        f"cache_size = -{_WRITER_CACHE_KIB}",
        f"cache_spill = {_CHANGED_PAGES}",
        f"journal_size_limit = {_JOURNAL_SIZE_LIMIT_BYTES}",
    ):
        connection.execute(f"PRAGMA {pragma}").fetchall()


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open a connection that only reads."""
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode=ro",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.row_factory = sqlite3.Row
    try:
        connection.execute("PRAGMA query_only = ON")
        connection.execute(f"PRAGMA cache_size = -{_READER_CACHE_KIB}")
        connection.execute("PRAGMA busy_timeout = 5000")
    except sqlite3.Error:  # a damaged file fails here first
        connection.close()
        raise
    return connection


def insert_rows(
    connection: sqlite3.Connection,
    table: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[Any]],
    *,
    constant: Mapping[str, Any] = MappingProxyType({}),
    on_conflict: str = "",
) -> None:
    """Insert rows, many per statement, which takes a third less time than one.

    constant: columns whose value all rows share, bound once per statement.
    """
    shared = [f"?{place}" for place in range(1, len(constant) + 1)]
    row = f"({', '.join([*shared, *'?' * len(columns)])})"
    names = ", ".join((*constant, *columns))
    one = f"INSERT INTO {table} ({names}) VALUES {row}"  # noqa: S608 - our own names
    many = one + f", {row}" * (_ROWS_A_STATEMENT - 1)
    rows = iter(rows)
    while batch := list(islice(rows, _ROWS_A_STATEMENT)):
        if len(batch) == _ROWS_A_STATEMENT:
            values = [*constant.values(), *chain.from_iterable(batch)]
            connection.execute(f"{many} {on_conflict}", values)
        else:
            last = ((*constant.values(), *row) for row in batch)
            connection.executemany(f"{one} {on_conflict}", last)


class Readers:
    """A few read-only connections, opened when first needed.

    on_broken: called with the reason when a read shows that the database is broken.
    """

    def __init__(self, path: Path, *, size: int, on_broken: Callable[[str], None]) -> None:
        self._path = path
        self._on_broken = on_broken
        self._idle: queue.LifoQueue[sqlite3.Connection | None] = queue.LifoQueue()
        for _ in range(size):
            self._idle.put(None)
        self._size = size
        self._closed = False

    @contextmanager
    def snapshot(self) -> Iterator[sqlite3.Connection]:
        """A connection whose statements all see one state of the database.

        Fetch rows within the block, and leave it soon: an open snapshot keeps the WAL from
        shrinking.
        """
        connection = self._idle.get()
        if self._closed:
            self._idle.put(connection)
            raise Busy("the daemon is stopping; try again when it is back")
        try:
            connection = connection or connect_reader(self._path)
            connection.execute("BEGIN")
            try:
                yield connection
            finally:
                connection.execute("ROLLBACK")
        except sqlite3.Error as error:
            if primary_code(error) in FATAL:
                self._on_broken(str(error))
            raise translate(error) from error
        finally:
            self._idle.put(connection)

    def read(
        self,
        query: Callable[Concatenate[sqlite3.Connection, _P], _R],
        *args: _P.args,
        **kwargs: _P.kwargs,
    ) -> _R:
        """What `query` finds in one snapshot."""
        with self.snapshot() as connection:
            return query(connection, *args, **kwargs)

    def all(self, sql: str, parameters: Parameters = ()) -> list[Any]:
        """All rows that a statement finds."""
        with self.snapshot() as connection:
            return connection.execute(sql, parameters).fetchall()

    def one(self, sql: str, parameters: Parameters = ()) -> Any:
        """The first row that a statement finds, None if there is none."""
        with self.snapshot() as connection:
            return connection.execute(sql, parameters).fetchone()

    def shrink(self) -> None:
        """Free the page caches of idle connections."""
        idle: list[sqlite3.Connection | None] = []
        try:
            with suppress(queue.Empty):
                while True:
                    idle.append(self._idle.get_nowait())
            for connection in filter(None, idle):
                connection.execute(SHRINK)
        finally:
            for reader in reversed(idle):
                self._idle.put(reader)

    def close(self) -> None:
        """Close every connection once it is returned; later reads raise Busy."""
        connections = [self._idle.get() for _ in range(self._size)]
        self._closed = True
        self._idle.put(None)
        for connection in connections:
            if connection is not None:
                connection.close()
