"""What a write works with: statements, events, and what follows the commit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from storage.database.codec import dump, dump_time
from storage.database.connection import sqlite3

Parameters = Sequence[Any] | Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; ids rise by one and are never used again."""

    id: int
    type: str
    model: str | None
    data: dict[str, Any]
    created_at: datetime


class Transaction:
    """What a write works with, until it is committed."""

    def __init__(self, connection: sqlite3.Connection, now: datetime) -> None:
        self.connection = connection
        self.now = now
        self.events: list[Event] = []
        self.deferred: list[Callable[[], object]] = []

    def execute(self, sql: str, parameters: Parameters = ()) -> sqlite3.Cursor:
        return self.connection.execute(sql, parameters)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]]) -> sqlite3.Cursor:
        return self.connection.executemany(sql, rows)

    def event(self, kind: str, model: str | None, data: dict[str, Any]) -> Event:
        """Record that something happened; subscribers hear of it after the commit."""
        row = self.execute(
            "INSERT INTO events (type, model, data, created_at) VALUES (?, ?, ?, ?) RETURNING id",
            (kind, model, dump(data), dump_time(self.now)),
        ).fetchone()
        event = Event(id=row["id"], type=kind, model=model, data=data, created_at=self.now)
        self.events.append(event)
        return event

    def after_commit(self, action: Callable[[], object]) -> None:
        """Have `action` run once the transaction is durable, in the writing thread."""
        self.deferred.append(action)
