"""Registered models."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from msgspec.structs import replace

from storage.blobs.files import FileStore
from storage.blobs.packs import Packs
from storage.database.codec import dump, dump_time
from storage.database.connection import Readers
from storage.database.repository import Repository, writes
from storage.database.transaction import Transaction
from storage.database.writer import Writer
from storage.erasure.deletion import Eraser
from storage.errors import InUse, NotFound, StateConflict
from storage.records.id_set import Ids
from storage.records.models import FileRecord, Model, NewModel
from storage.records.versions import Version
from storage.samples.quota import EVICTABLE, to_evict
from storage.tables.classes import (
    Removal,
    edit_requests,
    name_versions,
    remove_label,
    require_idle,
    require_unlabelled,
)
from storage.tables.jobs import training_job
from storage.tables.model_rows import (
    among,
    fetch_models,
    find_model,
    insert_base,
    insert_model,
    renew_base,
    update_model,
)
from storage.versions.aliases import record_promotion

_FILES_OF_MODEL = """
SELECT sha256 FROM base_files WHERE model_id = :id
UNION SELECT sha256 FROM checkpoints WHERE model_id = :id
UNION SELECT sha256 FROM versions WHERE model_id = :id
UNION SELECT sha256 FROM variants WHERE model_id = :id AND sha256 IS NOT NULL
UNION SELECT sha256 FROM job_files JOIN jobs ON jobs.id = job_id WHERE model_id = :id
"""
_HAS_FILE = """
SELECT model_id, base FROM base_files WHERE role = ? AND sha256 = ?
ORDER BY model_id, base LIMIT 1
"""
_FORGET_REFUSALS = "DELETE FROM variants WHERE model_id = ? AND sha256 IS NULL"


class Models(Repository):
    """Models by name."""

    def __init__(
        self, writer: Writer, readers: Readers, *, files: FileStore, packs: Packs, eraser: Eraser
    ) -> None:
        super().__init__(writer, readers)
        self._files = files
        self._packs = packs
        self._eraser = eraser

    @writes
    def add(self, transaction: Transaction, new: NewModel, base_version: FileRecord) -> Model:
        """Register a model; base_version: the model as uploaded, which becomes version 1.

        Raises AlreadyExists if the name is taken.
        """
        self._files.reference(transaction, [base_version, *new.files.values()])
        model_id = insert_model(transaction, new)
        now = dump_time(transaction.now)
        insert_base(transaction, model_id, 1, new, adopted_at=now)
        transaction.execute(
            "INSERT INTO versions (model_id, version, base, sha256, created_at, metrics, "
            "baseline, promoted, reason, target) SELECT id, 1, 1, ?, ?, '{}', '{}', 1, "
            "'registered', target FROM models WHERE id = ?",
            (base_version.sha256, now, model_id),
        )
        record_promotion(transaction, model_id, 1)
        transaction.execute("INSERT INTO aliases VALUES (?, 'latest', 1)", (model_id,))
        transaction.event("model.created", new.name, {"version": 1})
        return find_model(transaction.connection, "id", model_id)

    def get(self, name: str) -> Model:
        """Raises NotFound."""
        return self._readers.read(find_model, "name", name)

    def get_by_id(self, id: int, *, base: int | None = None) -> Model:  # noqa: A002
        """base: the one that it is shown at, None for that of `latest`. Raises NotFound."""
        return self._readers.read(find_model, "id", id, base=base)

    def of_version(self, version: Version) -> Model:
        """A version's model, at the base that it descends from. Raises NotFound."""
        return self.get_by_id(version.model_id, base=version.base)

    def find_by_file(self, role: str, sha256: str) -> Model | None:
        """The first model that has this file in this role, at the base that has it."""
        with self._readers.snapshot() as connection:
            row = connection.execute(_HAS_FILE, (role, sha256)).fetchone()
            if row is None:
                return None
            return find_model(connection, "id", row["model_id"], base=row["base"])

    def list(
        self, limit: int = -1, after: str | None = None, *, names: Collection[str] | None = None
    ) -> builtins.list[Model]:
        """Models by name; after: the last name of the previous page. names: only these. limit: -1
        for all.
        """
        condition, chosen = among("name", names)
        return self._readers.read(
            fetch_models,
            f"WHERE name > ? AND {condition} ORDER BY name LIMIT ?",
            (after or "", *chosen, limit),
        )

    def change(self, name: str, edit: Callable[[Model], Model]) -> tuple[Model, int]:
        """Change a model's settings; returns it and how many samples a new quota evicted.

        edit: returns the changed model; it runs within the transaction, so that no concurrent
        change is lost, and if it raises, nothing changes. It runs once before, too. After a change
        of the gate, refused variants may be requested again. Raises NotFound, and StorageFull if
        samples that must stay exceed the quota.
        """

        def write(transaction: Transaction) -> Model:
            model = find_model(transaction.connection, "name", name)
            new = edit(model)
            update_model(transaction, new)
            names = new.signature.target.classes
            if names is not None and model.signature.target.classes is None:
                name_versions(transaction, model.id, names)
            if new.gate != model.gate:
                transaction.execute(_FORGET_REFUSALS, (model.id,))
            transaction.event("model.updated", name, {})
            return find_model(transaction.connection, "id", model.id)

        old = self.get(name)
        quota = edit(old).quota
        if quota == old.quota:
            return self._writer.write(write), 0

        def choose() -> Ids:
            """By a reader: to sort a million samples takes longer than a write may."""
            with self._readers.snapshot() as connection:
                return np.array(to_evict(connection, old.id, quota), np.int64)

        _, evicted = self._eraser.deletions.run(old.id, choose, write, where=EVICTABLE)
        if evicted:
            self._eraser.erase_at_rest(old.id)
        return self.get_by_id(old.id), len(evicted)

    def _replace_files(self, transaction: Transaction, new: Model) -> None:
        old = find_model(transaction.connection, "id", new.id, base=new.base)
        self._files.reference(transaction, new.files.values())
        renew_base(transaction, new)
        self._files.release(transaction, [file.sha256 for file in old.files.values()])

    @writes
    def change_classes(
        self,
        transaction: Transaction,
        old: Model,
        new: Model,
        renewed: Sequence[Model],
        *,
        edit: Callable[[dict[str, Any]], dict[str, Any]],
        edit_gate: Callable[[dict[str, Any]], dict[str, Any]] = dict,
        removal: Removal | None = None,
    ) -> int:
        """Change a model's classes, with its head, labels and hyperparameters, all or nothing.

        old: the model as it was read. new: with the changed classes. renewed: the model at each of
        its bases, prepared anew, with its files; none if the heads stay. edit: adapts
        hyperparameters of the model, its triggers and bases to the new classes, edit_gate its gate.
        Returns how many samples the removed class had. Raises NotFound, StateConflict if the
        classes have changed meanwhile, and InUse while a job is unfinished or if samples would lose
        their labels but may not.
        """
        now = find_model(transaction.connection, "id", old.id)
        if now.signature.target != old.signature.target:
            raise StateConflict("the model's classes were changed meanwhile; look again")
        require_idle(transaction.connection, now.id)
        for row in renewed:
            self._replace_files(transaction, row)
        moved = remove_label(transaction, now.id, removal) if removal is not None else 0
        defaults = edit(now.hyperparameters)
        changed = replace(now, signature=new.signature, hyperparameters=defaults)
        update_model(transaction, replace(changed, gate=edit_gate(now.gate)))
        edit_requests(transaction, now.id, edit)
        transaction.event("model.updated", now.name, {})
        return moved

    def require_idle(self, model: Model, removal: Removal | None = None) -> None:
        """Raises InUse if `change_classes` would."""
        with self._readers.snapshot() as connection:
            require_idle(connection, model.id)
            if removal is not None:
                require_unlabelled(connection, model.id, removal)

    @writes
    def freeze_preprocess(
        self,
        transaction: Transaction,
        id: int,  # noqa: A002
        preprocess: tuple[dict[str, Any], ...],
        *,
        base: int,
    ) -> Model:
        """Set the preprocessing of a base that was fitted on samples; of two callers the first
        wins.

        Raises NotFound.
        """
        model = find_model(transaction.connection, "id", id, base=base)
        if any(description.get("mean", 0) is None for description in model.preprocess):
            transaction.execute(
                "UPDATE bases SET preprocess = ? WHERE model_id = ? AND base = ?",
                (dump(preprocess), id, base),
            )
            transaction.event("model.updated", model.name, {})
        return find_model(transaction.connection, "id", id, base=base)

    def delete(self, name: str) -> None:
        """Delete a model with all that belongs to it. Raises NotFound, InUse while a job runs.

        Many samples go first, a few at a time; the next start goes on with what a crash interrupts.
        """
        self._delete(self.get(name).id)

    def finish_deletions(self) -> None:
        """Delete the models whose deletion was interrupted, or has failed."""
        for model_id in self._eraser.deletions.models_left():
            with suppress(NotFound):  # it was under way
                self._delete(model_id)

    def _delete(self, model_id: int) -> None:
        def delete(transaction: Transaction) -> None:
            model = _untrained_model(transaction, model_id)
            rows = transaction.execute(_FILES_OF_MODEL, {"id": model_id})
            hashes = [row["sha256"] for row in rows]
            transaction.execute("DELETE FROM models WHERE id = ?", (model_id,))
            self._files.release(transaction, hashes)
            transaction.after_commit(lambda: self._packs.remove(model_id))
            transaction.event("model.deleted", model.name, {})

        def last() -> None:
            with self._packs.lock(model_id):
                self._writer.write(delete)

        self._eraser.deletions.run_with_model(
            model_id, lambda transaction: _untrained_model(transaction, model_id), last
        )


def _untrained_model(transaction: Transaction, model_id: int) -> Model:
    """Raises NotFound, InUse while a job trains it."""
    model = find_model(transaction.connection, "id", model_id)
    running = training_job(transaction.connection, model_id)
    if running is not None:
        raise InUse(f"model {model.name!r} is in training by job {running}; cancel it first")
    return model
