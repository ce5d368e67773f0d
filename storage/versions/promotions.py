"""How aliases move, and which versions `latest` has named: each promotion is a row.

A rollback deletes the newest row.
"""

from __future__ import annotations

from storage.database.codec import dump_time
from storage.database.connection import sqlite3
from storage.database.transaction import Transaction
from storage.records.versions import Version

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
SELECT id, version FROM promotions WHERE model_id = ? AND version <> ? ORDER BY id DESC LIMIT 1
"""


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


def undo_promotion(transaction: Transaction, model_id: int, *, current: int) -> int | None:
    """Delete the newest promotion, that of `current`; returns the previous version, if any."""
    row = transaction.execute(_PREVIOUS, (model_id, current)).fetchone()
    if row is None:
        return None
    transaction.execute(
        "DELETE FROM promotions WHERE model_id = ? AND id > ?", (model_id, row["id"])
    )
    return int(row["version"])
