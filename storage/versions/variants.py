"""Variants: other forms of a version's model, created once and stored with it."""

from __future__ import annotations

from typing import Any

from storage.database.codec import dump, dump_time
from storage.database.repository import FileRepository, writes
from storage.database.transaction import Transaction
from storage.records.models import FileRecord
from storage.records.versions import Variant, VariantName
from storage.versions.version_rows import find_version

_INSERT = """
INSERT INTO variants VALUES (
  :model_id, :version, :variant, :sha256, :method, :metrics, :verdict, :reason, :created_at
) ON CONFLICT DO NOTHING
"""
_DROP_DAMAGED = """
DELETE FROM variants WHERE model_id = ? AND version = ? AND variant = ?
  AND sha256 IN (SELECT sha256 FROM damaged_files) RETURNING sha256
"""
_EVENTS = {True: "variant.made", False: "variant.refused"}


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
        if transaction.execute(_INSERT, row).rowcount:
            data = {"version": version, "variant": name, "reason": reason}
            transaction.event(_EVENTS[file is not None], model, data)
        if file is not None:
            # Another request created it first: this file may differ and is unused.
            self._files.release(transaction, [file.sha256])
        variants = find_version(transaction.connection, model_id, version).variants
        return next(variant for variant in variants if variant.name == name)
