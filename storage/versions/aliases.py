"""Aliases: movable names of versions. `latest` is what apps fetch; there is always exactly one.

Each version that `latest` has named is a row, a promotion. A rollback deletes the newest.
"""

from __future__ import annotations

import builtins

from storage.database.codec import dump_time
from storage.database.connection import sqlite3
from storage.database.repository import Repository, writes
from storage.database.transaction import Transaction
from storage.errors import InUse, StateConflict
from storage.records.versions import Version
from storage.versions.version_rows import find_version, named_version

LATEST = "latest"
KEPT = 1000
"""The number of promotions kept per model."""
_POINT = """
INSERT INTO aliases (model_id, alias, version) VALUES (?, ?, ?)
ON CONFLICT DO UPDATE SET version = excluded.version
"""
_BASE = """
SELECT base, shapes, version, models.name AS model
FROM aliases JOIN versions USING (model_id, version) JOIN bases USING (model_id, base)
JOIN models ON models.id = model_id WHERE model_id = ? AND alias = 'latest'
"""
_ADOPT = """
UPDATE bases SET adopted_at = coalesce(adopted_at, ?) WHERE model_id = ? AND base = ?
"""
_END_CONSENT = """
UPDATE models SET federation = json_remove(federation, '$.allowed') WHERE id = ?
"""
_RECORD = """
INSERT INTO promotions (model_id, version, promoted_at)
VALUES (:model_id, :version, :promoted_at)
"""
_FORGET_OLDEST = """
DELETE FROM promotions WHERE id IN (
  SELECT id FROM promotions WHERE model_id = ? ORDER BY id DESC LIMIT -1 OFFSET ?
)
"""
_PREVIOUS = """
SELECT version FROM promotions WHERE model_id = ? AND version <> ? ORDER BY id DESC LIMIT 1
"""
_UNDO = """
DELETE FROM promotions WHERE model_id = :model_id AND id > (
  SELECT max(id) FROM promotions WHERE model_id = :model_id AND version <> :current
)
"""
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

    @writes
    def delete(self, transaction: Transaction, model_id: int, alias: str) -> None:
        """Raises NotFound, and InUse for `latest`."""
        if alias == LATEST:
            raise InUse("latest is what apps fetch; move it to another version instead")
        version = named_version(transaction.connection, model_id, alias)
        transaction.execute(
            "DELETE FROM aliases WHERE model_id = ? AND alias = ?", (model_id, alias)
        )
        data = {"alias": alias, "version": version.version}
        transaction.event("alias.deleted", version.model, data)

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
        previous = previous_promotion(transaction, model_id, current=current.version)
        if previous is None:
            raise StateConflict(
                f"latest has named version {current.version} alone; there is none to go back to"
            )
        transaction.execute(_UNDO, {"model_id": model_id, "current": current.version})
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


def move_alias(transaction: Transaction, version: Version, alias: str) -> None:
    """Point an alias at a version, with an event. Each move of `latest` is a promotion."""
    point(transaction, version.model_id, alias, version.version)
    if alias == LATEST:
        record_promotion(transaction, version.model_id, version.version)
    kind = "version.promoted" if alias == LATEST else "alias.moved"
    transaction.event(kind, version.model, {"alias": alias, "version": version.version})


def point(transaction: Transaction, model_id: int, alias: str, version: int) -> None:
    """Only move the alias; with `latest`, the model's base is that of the version."""
    before = transaction.execute(_BASE, (model_id,)).fetchone() if alias == LATEST else None
    transaction.execute(_POINT, (model_id, alias, version))
    if before is not None:
        after = transaction.execute(_BASE, (model_id,)).fetchone()
        if after["base"] != before["base"]:
            _adopt(transaction, model_id, before, after)


def _adopt(
    transaction: Transaction, model_id: int, before: sqlite3.Row, after: sqlite3.Row
) -> None:
    """Record that the model has another base. Consent ends if other parameters train: an update is
    no longer of the kind that a person has allowed.
    """
    key = (model_id, after["base"])
    transaction.execute(_ADOPT, (dump_time(transaction.now), *key))
    if after["shapes"] != before["shapes"]:
        transaction.execute(_END_CONSENT, (model_id,))
    data = {"base": after["base"], "from": before["base"], "version": after["version"]}
    transaction.event("base.adopted", after["model"], data)


def record_promotion(transaction: Transaction, model_id: int, version: int) -> None:
    """Record that `latest` names this version from now on."""
    promoted_at = dump_time(transaction.now)
    row = {"model_id": model_id, "version": version, "promoted_at": promoted_at}
    transaction.execute(_RECORD, row)
    transaction.execute(_FORGET_OLDEST, (model_id, KEPT))


def previous_promotion(transaction: Transaction, model_id: int, *, current: int) -> int | None:
    """The version that `latest` named before `current`, None if none is still kept."""
    row = transaction.execute(_PREVIOUS, (model_id, current)).fetchone()
    return None if row is None else int(row["version"])
