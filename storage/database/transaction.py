"""A write's transaction: its statements, events, and actions after commit or rollback."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from io import FileIO
from pathlib import Path
from typing import Any

from msgspec import Struct

from storage.database.codec import dump, dump_time
from storage.database.connection import Parameters, sqlite3
from storage.disk.durable import sync_file


class Event(Struct, frozen=True):
    """Something that happened; ids rise by one and are never used again."""

    id: int
    type: str
    model: str | None
    created_at: datetime
    data: dict[str, Any]


class TransientEvent(Struct, frozen=True):
    """Something that is told once and not stored: it has no id, and nobody can ask for it again."""

    type: str
    model: str | None
    data: dict[str, Any]
    created_at: datetime
    id: None = None


Happening = Event | TransientEvent


class Appended:
    """Files with new bytes that the rows of one COMMIT name: each is flushed once, before it."""

    def __init__(self) -> None:
        self._open: dict[Path, FileIO] = {}

    def open(self, path: Path) -> FileIO:
        """The file, created if there is none; unbuffered: closing must not retry a failed write."""
        if path not in self._open:
            self._open[path] = path.open("r+b" if path.exists() else "w+b", buffering=0)
        return self._open[path]

    def sync(self) -> None:
        """Make all of them durable. Raises OSError."""
        for file in self._open.values():
            sync_file(file)

    def forget(self, path: Path) -> None:
        """Close a file that no row names."""
        if path in self._open:
            self._open.pop(path).close()

    def close(self) -> None:
        """Close all of them."""
        for path in [*self._open]:
            self.forget(path)


class Transaction:
    """The transaction that a write receives. files: flushed before the commit."""

    def __init__(
        self, connection: sqlite3.Connection, now: datetime, files: Appended | None = None
    ) -> None:
        self.connection = connection
        self.now = now
        self.files = files or Appended()
        self.events: list[Happening] = []
        self.deferred: list[Callable[[], object]] = []
        self.undoing: list[Callable[[], object]] = []

    def execute(self, sql: str, parameters: Parameters = ()) -> sqlite3.Cursor:
        return self.connection.execute(sql, parameters)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> sqlite3.Cursor:
        return self.connection.executemany(sql, rows)

    def insert(self, table: str, values: Mapping[str, Any]) -> Any:
        """Insert a row and return it. values: by column."""
        marks = ", ".join("?" * len(values))
        sql = f"INSERT INTO {table} ({', '.join(values)}) VALUES ({marks}) RETURNING *"  # noqa: S608
        return self.execute(sql, tuple(values.values())).fetchone()

    def update(self, table: str, values: Mapping[str, Any], *, where: Mapping[str, Any]) -> int:
        """Set columns of the rows whose columns have the values in `where`; returns how many."""
        changes, conditions = ([f"{column} = ?" for column in each] for each in (values, where))
        sql = f"UPDATE {table} SET {', '.join(changes)} WHERE {' AND '.join(conditions)}"  # noqa: S608
        return self.execute(sql, (*values.values(), *where.values())).rowcount

    def event(self, kind: str, model: str | None, data: dict[str, Any]) -> Event:
        """Record an event; subscribers receive it after the commit."""
        row = self.execute(
            "INSERT INTO events (type, model, data, created_at) VALUES (?, ?, ?, ?) RETURNING id",
            (kind, model, dump(data), dump_time(self.now)),
        ).fetchone()
        event = Event(id=row["id"], type=kind, model=model, data=data, created_at=self.now)
        self.events.append(event)
        return event

    def tell(self, kind: str, model: str | None, data: dict[str, Any]) -> None:
        """As `event`, of what happens too often to be stored."""
        self.events.append(TransientEvent(kind, model, data, self.now))

    def after_commit(self, action: Callable[[], object]) -> None:
        """Run `action` once the transaction is durable, in the writing thread."""
        self.deferred.append(action)

    def after_rollback(self, action: Callable[[], object]) -> None:
        """Run `action` if the rows are certainly not kept, in the writing thread."""
        self.undoing.append(action)
