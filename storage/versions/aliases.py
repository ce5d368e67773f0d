"""Aliases: movable names of versions. `latest` is what apps fetch; there is always exactly one."""

from __future__ import annotations

import builtins

from storage.database.codec import dump_time
from storage.database.connection import Readers
from storage.database.transaction import Transaction
from storage.database.writer import Writer
from storage.errors import InUse, NotFound, StateConflict
from storage.records.versions import Version
from storage.versions.promotions import LATEST, move_alias, point, undo_promotion
from storage.versions.version_rows import find_version

_LIST = "SELECT alias, version FROM aliases WHERE model_id = ? AND alias > ? ORDER BY alias LIMIT ?"


class Aliases:
    """Aliases by model and name. Each move is one transaction."""

    def __init__(self, writer: Writer, readers: Readers) -> None:
        self._writer = writer
        self._readers = readers

    def set(self, model_id: int, alias: str, n: int) -> Version:
        """Point an alias at a version. Raises NotFound."""

        def move(transaction: Transaction) -> Version:
            version = find_version(transaction.connection, model_id, n)
            if alias not in version.aliases:
                move_alias(transaction, version, alias)
            return find_version(transaction.connection, model_id, n)

        return self._writer.write(move)

    def delete(self, model_id: int, alias: str) -> None:
        """Raises NotFound, and InUse for `latest`."""
        if alias == LATEST:
            raise InUse("latest is what apps fetch; move it to another version instead")

        def remove(transaction: Transaction) -> None:
            version = _named(transaction, model_id, alias)
            transaction.execute(
                "DELETE FROM aliases WHERE model_id = ? AND alias = ?", (model_id, alias)
            )
            data = {"alias": alias, "version": version.version}
            transaction.event("alias.deleted", version.model, data)

        self._writer.write(remove)

    def list(self, model_id: int, limit: int, after: str = "") -> builtins.list[tuple[str, int]]:
        """(alias, version) by alias; after: the last alias of the previous page."""
        with self._readers.snapshot() as connection:
            rows = connection.execute(_LIST, (model_id, after, limit)).fetchall()
        return [(row["alias"], row["version"]) for row in rows]

    def roll_back(self, model_id: int) -> Version:
        """Move `latest` back to its previous version, and hold it there until `release`.

        Raises NotFound, and StateConflict if it has named nothing else.
        """

        def undo(transaction: Transaction) -> Version:
            current = _named(transaction, model_id, LATEST)
            previous = undo_promotion(transaction, model_id, current=current.version)
            if previous is None:
                raise StateConflict(
                    f"latest has named version {current.version} alone; there is none to go back to"
                )
            point(transaction, model_id, LATEST, previous)
            transaction.execute(
                "UPDATE models SET held_since = coalesce(held_since, ?) WHERE id = ?",
                (dump_time(transaction.now), model_id),
            )
            data = {"alias": LATEST, "version": previous, "from": current.version}
            transaction.event("version.rolled_back", current.model, data)
            return find_version(transaction.connection, model_id, previous)

        return self._writer.write(undo)

    def release(self, model_id: int) -> None:
        """Let the next job's version become `latest` again. Raises NotFound."""

        def free(transaction: Transaction) -> None:
            version = _named(transaction, model_id, LATEST)
            freed = transaction.execute(
                "UPDATE models SET held_since = NULL WHERE id = ? AND held_since IS NOT NULL",
                (model_id,),
            ).rowcount
            if freed:
                transaction.event("version.released", version.model, {"version": version.version})

        self._writer.write(free)


def _named(transaction: Transaction, model_id: int, alias: str) -> Version:
    row = transaction.execute(
        "SELECT version FROM aliases WHERE model_id = ? AND alias = ?", (model_id, alias)
    ).fetchone()
    if row is None:
        raise NotFound(f"this model has no alias {alias!r}")
    return find_version(transaction.connection, model_id, row["version"])
