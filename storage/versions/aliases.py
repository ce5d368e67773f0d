"""Aliases: movable names of versions. `latest` is what apps fetch; there is always exactly one."""

from __future__ import annotations

import builtins

from storage.database.codec import dump_time
from storage.database.repository import Repository, writes
from storage.database.transaction import Transaction
from storage.errors import InUse, StateConflict
from storage.records.versions import Version
from storage.versions.promotions import LATEST, move_alias, point, undo_promotion
from storage.versions.version_rows import find_version, named_version

_LIST = "SELECT alias, version FROM aliases WHERE model_id = ? AND alias > ? ORDER BY alias LIMIT ?"


class Aliases(Repository):
    """Aliases by model and name. Each move is one transaction."""

    @writes
    def set(self, transaction: Transaction, model_id: int, alias: str, n: int) -> Version:
        """Point an alias at a version. Raises NotFound."""
        version = find_version(transaction.connection, model_id, n)
        if alias not in version.aliases:
            move_alias(transaction, version, alias)
        return find_version(transaction.connection, model_id, n)

    def delete(self, model_id: int, alias: str) -> None:
        """Raises NotFound, and InUse for `latest`."""
        if alias == LATEST:
            raise InUse("latest is what apps fetch; move it to another version instead")

        def remove(transaction: Transaction) -> None:
            version = named_version(transaction.connection, model_id, alias)
            transaction.execute(
                "DELETE FROM aliases WHERE model_id = ? AND alias = ?", (model_id, alias)
            )
            data = {"alias": alias, "version": version.version}
            transaction.event("alias.deleted", version.model, data)

        self._writer.write(remove)

    def list(self, model_id: int, limit: int, after: str = "") -> builtins.list[tuple[str, int]]:
        """(alias, version) by alias; after: the last alias of the previous page."""
        rows = self._readers.all(_LIST, (model_id, after, limit))
        return [(row["alias"], row["version"]) for row in rows]

    @writes
    def roll_back(self, transaction: Transaction, model_id: int) -> Version:
        """Move `latest` back to its previous version, and hold it there until `release`.

        Raises NotFound, and StateConflict if it has named nothing else.
        """
        current = named_version(transaction.connection, model_id, LATEST)
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

    @writes
    def release(self, transaction: Transaction, model_id: int) -> None:
        """Let the next job's version become `latest` again. Raises NotFound."""
        version = named_version(transaction.connection, model_id, LATEST)
        freed = transaction.execute(
            "UPDATE models SET held_since = NULL WHERE id = ? AND held_since IS NOT NULL",
            (model_id,),
        ).rowcount
        if freed:
            transaction.event("version.released", version.model, {"version": version.version})
