"""Versions: exported inference models. Variants: other forms of one, made once."""

from __future__ import annotations

import builtins
from typing import Any

from msgspec.structs import replace

from storage.database.codec import dump, dump_time
from storage.database.repository import FileRepository, writes
from storage.database.rows import columns, matching
from storage.database.transaction import Transaction
from storage.erasure.unlearning import carry_out_requests
from storage.records.jobs import JobState
from storage.records.models import FileRecord
from storage.records.versions import NewVersion, Variant, VariantName, Version
from storage.tables.jobs import move_job
from storage.versions.aliases import LATEST, move_alias
from storage.versions.version_rows import fetch_versions, find_version, named_version

_INSERT = """
INSERT INTO versions (
  model_id, version, base, sha256, created_at, job_id, checkpoint_id, metrics, baseline, promoted,
  reason, verdict, provenance, target
)
SELECT
  :model_id,
  1 + max(
    coalesce(max(version), 0),
    -- of those that are gone too, with an upgrade that was dropped for example
    (SELECT coalesce(max(version), 0) FROM jobs WHERE model_id = :model_id)
  ),
  (SELECT coalesce(base, 1) FROM jobs WHERE id = :job_id),  -- none if it does not run: see move_job
  :sha256, :created_at, :job_id, :checkpoint_id,
  :metrics, :baseline, :promoted, :reason, :verdict, :provenance,
  (SELECT target FROM models WHERE id = :model_id)
FROM versions WHERE model_id = :model_id
RETURNING version
"""
_GIVEN = (
    *("model_id", "job_id", "checkpoint_id", "metrics", "baseline", "promoted", "reason"),
    *("verdict", "provenance"),
)
_LATEST = "SELECT version FROM aliases WHERE model_id = ? AND alias = 'latest'"
_PROMOTED_BEFORE = """
SELECT max(version) AS version FROM versions
WHERE model_id = ? AND base = ? AND version < ? AND promoted
"""

_INSERT_VARIANT = """
INSERT INTO variants VALUES (
  :model_id, :version, :variant, :sha256, :method, :metrics, :verdict, :reason, :created_at
) ON CONFLICT DO NOTHING
"""
_DROP_DAMAGED = """
DELETE FROM variants WHERE model_id = ? AND version = ? AND variant = ?
  AND sha256 IN (SELECT sha256 FROM damaged_files) RETURNING sha256
"""
_EVENTS = {True: "variant.made", False: "variant.refused"}
MAX_VERSION = 2**63 - 1


class Versions(FileRepository):
    """Versions by model and number."""

    @writes
    def publish(
        self,
        transaction: Transaction,
        new: NewVersion,
        *,
        compared_with: int | None,
        job_metrics: dict[str, Any],
    ) -> Version | None:
        """In one transaction, make an adopted file the next version and its running job succeed.

        `latest` does not move to it while it is held. Versions that saw erased samples go, if this
        job has done without those. compared_with: the version that `latest`
        named when the gate decided; if it has moved since, nothing is stored, and the result is
        None. job_metrics: replace the job's own, including the gate's decision.
        Raises NotFound, and StateConflict if the job is not running.
        """
        latest = int(transaction.execute(_LATEST, (new.model_id,)).fetchone()["version"])
        if compared_with is not None and latest != compared_with:
            return None
        self._files.reference(transaction, [new.file])
        version = _insert(transaction, _unless_held(transaction, new, latest=latest))
        if new.recipe is not None:
            self._files.keep_as_steps(transaction, new.file.sha256, new.recipe)
        if version.promoted:
            move_alias(transaction, version, LATEST)
        decided = {"promoted": version.promoted, "reason": version.reason}
        metrics = {**job_metrics, **decided}
        move_job(
            transaction,
            new.job_id,
            from_=JobState.RUNNING,
            to=JobState.SUCCEEDED,
            fields={"version": version.version, "metrics": dump(metrics)},
        )
        carry_out_requests(transaction, self._files, version)
        return find_version(transaction.connection, new.model_id, version.version)

    def get(self, model_id: int, n: int) -> Version:
        """Raises NotFound."""
        return self._readers.read(find_version, model_id, n)

    def list(self, model_id: int, limit: int, after: int | None = None) -> builtins.list[Version]:
        """Versions of a model, newest first; after: the last number of the previous page."""
        condition, values = matching(("model_id = ?", model_id), ("version < ?", after))
        clauses = f"WHERE {condition} ORDER BY version DESC LIMIT ?"
        return self._readers.read(fetch_versions, clauses, (*values, limit))

    def promoted_before(
        self, model_id: int, base: int, *, version: int = MAX_VERSION
    ) -> Version | None:
        """The newest promoted version of a base, of those with lower numbers, if there is one."""
        with self._readers.snapshot() as connection:
            row = connection.execute(_PROMOTED_BEFORE, (model_id, base, version)).fetchone()
            if row["version"] is None:
                return None
            return find_version(connection, model_id, row["version"])

    def of_checkpoint(self, model_id: int, checkpoint_id: int) -> int | None:
        """The number of the version that was exported with this checkpoint, if any."""
        row = self._readers.one(
            "SELECT min(version) AS version FROM versions WHERE model_id = ? AND checkpoint_id = ?",
            (model_id, checkpoint_id),
        )
        number: int | None = row["version"]
        return number

    def by_alias(self, model_id: int, alias: str) -> Version:
        """Raises NotFound."""
        return self._readers.read(named_version, model_id, alias)


class Variants(FileRepository):
    """Variants by model, version and name."""

    @writes
    def add(
        self,
        transaction: Transaction,
        model_id: int,
        version: int,
        name: VariantName,
        *,
        file: FileRecord | None,
        method: str,
        metrics: dict[str, Any],
        verdict: dict[str, Any],
        reason: str,
    ) -> Variant:
        """Record an adopted file as a variant, or with None that it was refused.

        An existing one stays, unless it is damaged. Raises NotFound without the version.
        """
        self._files.release_deleted(transaction, _DROP_DAMAGED, (model_id, version, name))
        self._files.reference(transaction, [file] if file else [])
        row = {
            "model_id": model_id,
            "version": version,
            "variant": name,
            "sha256": file and file.sha256,
            "method": method,
            "metrics": dump(metrics),
            "verdict": dump(verdict),
            "reason": reason,
            "created_at": dump_time(transaction.now),
        }
        model = find_version(transaction.connection, model_id, version).model
        if transaction.execute(_INSERT_VARIANT, row).rowcount:
            data = {"version": version, "variant": name, "reason": reason}
            transaction.event(_EVENTS[file is not None], model, data)
        if file is not None:
            # Another request created it first: this file may differ and is unused.
            self._files.release(transaction, [file.sha256])
        variants = find_version(transaction.connection, model_id, version).variants
        return next(variant for variant in variants if variant.name == name)


def _unless_held(transaction: Transaction, new: NewVersion, *, latest: int) -> NewVersion:
    """The new version, not promoted if a person holds `latest`."""
    if not new.promoted:
        return new
    since = transaction.execute(
        "SELECT held_since FROM models WHERE id = ?", (new.model_id,)
    ).fetchone()["held_since"]
    if since is None:
        return new
    held = f"a person holds latest at version {latest} since {since}; release it first"
    return replace(new, promoted=False, reason=f"not promoted: {held} (the gate: {new.reason})")


def _insert(transaction: Transaction, new: NewVersion) -> Version:
    values = {**columns(new, _GIVEN), "sha256": new.file.sha256}
    row = transaction.execute(
        _INSERT, {**values, "created_at": dump_time(transaction.now)}
    ).fetchone()
    version = find_version(transaction.connection, new.model_id, row["version"])
    transaction.event(
        "version.created",
        version.model,
        {
            "version": version.version,
            "job_id": version.job_id,
            "promoted": version.promoted,
            "reason": version.reason,
        },
    )
    return version
