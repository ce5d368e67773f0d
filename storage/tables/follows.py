"""Followed sources of models, and the identity by which a share of all devices is drawn."""

from __future__ import annotations

import builtins

from msgspec.structs import replace

from storage.database.codec import dump_time
from storage.database.connection import sqlite3
from storage.database.repository import Repository, writes
from storage.database.rows import columns, record
from storage.database.transaction import Transaction
from storage.errors import NotFound
from storage.records.follows import Follow, FollowProgress, FollowTerms, Told
from storage.records.models import Model

_SELECT = """
SELECT follows.*, models.name AS model
FROM follows JOIN models ON models.id = follows.model_id
"""
_PUT = """
INSERT INTO follows (model_id, terms, created_at, set_at, progress)
VALUES (:model_id, :terms, :now, :now, :progress)
ON CONFLICT DO UPDATE SET terms = :terms, set_at = :now, progress = :progress
"""
_SEEN = ("offered", "taken", "taken_at", "job_id", "reported")
"""Fields of the progress that new terms keep."""


class Follows(Repository):
    """At most one followed source for each model."""

    def device_identity(self) -> str:
        """Drawn once for each data folder."""
        return str(self._readers.one("SELECT identity FROM device")["identity"])

    @writes
    def put(self, transaction: Transaction, model: Model, terms: FollowTerms) -> Follow:
        """Set the terms; the source is then due to be asked.

        What was seen of the vendor's versions is kept while the name stays. Raises NotFound.
        """
        known = _found(transaction.connection, model.id)
        kept = FollowProgress()
        if known is not None and known.terms.name == terms.name:
            was = known.progress
            seen = {name: getattr(was, name) for name in _SEEN}
            kept = FollowProgress(**seen)
        follow = Follow(model.id, model.name, terms, transaction.now, transaction.now, kept)
        values = columns(follow, ("model_id", "terms", "progress"))
        transaction.execute(_PUT, {**values, "now": dump_time(transaction.now)})
        transaction.event("follow.set", model.name, {"source": terms.source})
        return _one(transaction.connection, model)

    def get(self, model: Model) -> Follow:
        """Raises NotFound if the model follows none."""
        return self._readers.read(_one, model)

    def source(self, model_id: int) -> str | None:
        """What a model follows, None for nothing."""
        known = self._readers.read(_found, model_id)
        return None if known is None else known.terms.source

    def list(self) -> builtins.list[Follow]:
        """Of all models, by their ids."""
        rows = self._readers.all(f"{_SELECT} ORDER BY model_id")
        return [record(Follow, row) for row in rows]

    @writes
    def note(
        self, transaction: Transaction, follow: Follow, progress: FollowProgress, *told: Told
    ) -> bool:
        """Record what came of asking; False if the terms were set anew or deleted meanwhile."""
        values = columns(replace(follow, progress=progress), ("progress",))
        done = transaction.execute(
            "UPDATE follows SET progress = ? WHERE model_id = ? AND set_at = ?",
            (values["progress"], follow.model_id, dump_time(follow.set_at)),
        )
        if done.rowcount:
            for kind, data in told:
                transaction.event(kind, follow.model, data)
        return bool(done.rowcount)

    @writes
    def delete(self, transaction: Transaction, model: Model) -> None:
        """Raises NotFound."""
        known = _one(transaction.connection, model)
        transaction.execute("DELETE FROM follows WHERE model_id = ?", (model.id,))
        transaction.event("follow.ended", model.name, {"source": known.terms.source})


def _one(connection: sqlite3.Connection, model: Model) -> Follow:
    follow = _found(connection, model.id)
    if follow is None:
        raise NotFound(
            f"model {model.name!r} follows no source; PUT /v1/models/{model.name}/follow names one"
        )
    return follow


def _found(connection: sqlite3.Connection, model_id: int) -> Follow | None:
    row = connection.execute(f"{_SELECT} WHERE model_id = ?", (model_id,)).fetchone()
    return None if row is None else record(Follow, row)
