"""The log of events."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from storage.database.repository import Repository, writes
from storage.database.rows import record
from storage.database.transaction import Event, Transaction
from storage.database.writer import Subscriber
from storage.tables.model_rows import among, model_name


class Events(Repository):
    """The log of events. Ids rise by one and are never used again."""

    def append(self, type: str, model: str | None, data: dict[str, Any]) -> Event:  # noqa: A002
        return self._writer.write(lambda transaction: transaction.event(type, model, data))

    @writes
    def note_dropped(
        self, transaction: Transaction, model_id: int, cache: str, reason: str
    ) -> None:
        """Tell that a damaged cache of a model was dropped: it is made anew."""
        told = {"cache": cache, "reason": reason}
        transaction.event("storage.damaged", model_name(transaction, model_id), told)

    def since(self, id: int, limit: int) -> list[Event]:  # noqa: A002
        """Events after `id`, oldest first."""
        rows = self._readers.all(
            "SELECT * FROM events WHERE id > ? ORDER BY id LIMIT ?", (id, limit)
        )
        return [record(Event, row) for row in rows]

    def newest(
        self,
        *,
        types: Iterable[str] = (),
        models: Collection[str] | None = None,
        limit: int,
        before: int | None = None,
    ) -> list[Event]:
        """Newest first. types: their prefixes, empty for all. models: only these, None for all.

        before: the last id of the previous page.
        """
        condition, chosen = among("model", models)
        prefixes = list(types)
        begins = " OR ".join("substr(type, 1, length(?)) = ?" for _ in prefixes) or "1"
        values = [
            *chosen,
            *(prefix for prefix in prefixes for _ in range(2)),
            before,
            before,
            limit,
        ]
        rows = self._readers.all(
            f"SELECT * FROM events WHERE {condition} AND ({begins})"  # noqa: S608 - our own
            " AND (? IS NULL OR id < ?) ORDER BY id DESC LIMIT ?",
            values,
        )
        return [record(Event, row) for row in rows]

    def last(self, type: str, model: str) -> Event | None:  # noqa: A002
        """The newest event of a type about a model, None if none is stored."""
        row = self._readers.one(
            "SELECT * FROM events WHERE type = ? AND model = ? ORDER BY id DESC LIMIT 1",
            (type, model),
        )
        return None if row is None else record(Event, row)

    def last_id(self) -> int:
        """The id of the newest event ever stored, 0 if there was none."""
        row = self._readers.one("SELECT seq FROM sqlite_sequence WHERE name = 'events'")
        return 0 if row is None else int(row["seq"])

    def subscribe(self, callback: Subscriber) -> None:
        """Call `callback` with each event once it is durable.

        It runs in the writing thread: pass the event on and return; never write or wait there.
        """
        self._writer.subscribe(callback)
