"""What tests put into a store, as small as it can be; and what an older Hone has left there."""

from __future__ import annotations

import shutil
import threading
import zipfile
from concurrent.futures import Executor
from contextlib import closing
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from storage.database.connection import sqlite3
from storage.database.schema import KNOWN, SET
from storage.records.jobs import Job, JobState, NewJob
from storage.records.models import FileRecord, Model, NewModel, Quota
from storage.records.samples import VALIDATION_BELOW, Split
from storage.records.signatures import Signature, TargetSpec, TensorSpec
from storage.records.versions import Checkpoint, NewVersion, Version
from storage.store import Store
from storage.tables.classes import Removal

SCHEMAS = Path(__file__).parent.parent / "storage" / "database" / "schemas"
"""What `schema.sql` was after each migration that was not the last."""


def begin(data_dir: Path, database: Path) -> Path:
    """A data folder with a copy of an empty database: making one takes three times as long."""
    data_dir.mkdir(mode=0o700)
    shutil.copy(database, data_dir / "hone.db")
    return data_dir


def unpacked(archive: Path, folder: Path) -> Path:
    """A data folder from a zip, which only its owner may read."""
    with zipfile.ZipFile(archive) as content:
        content.extractall(folder)
    for path in (folder, *folder.rglob("*")):
        path.chmod(0o700 if path.is_dir() else 0o600)
    return folder


def make_older(database: Path, schema: Path) -> None:
    """Put the rows of a database, of which no store is open, into the tables of an older schema."""
    newer = database.rename(database.with_name("newer.db"))
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.executescript(schema.read_text("utf-8"))
        connection.execute("ATTACH ? AS newer", (str(newer),))
        names = "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name NOT LIKE ?"
        for (table,) in connection.execute(names, ("sqlite%",)).fetchall():
            info = connection.execute(f"PRAGMA main.table_info({table})").fetchall()
            columns = ", ".join(row[1] for row in info)
            connection.execute(f"REPLACE INTO main.{table} SELECT {columns} FROM newer.{table}")
        later = KNOWN[KNOWN.index(schema.stem) + 1 :]
        connection.executemany(
            "DELETE FROM _sqlite_migrations WHERE migration_set = ? AND name = ?",
            [(SET, name) for name in later],
        )
    newer.unlink()


def adopt(store: Store, content: bytes) -> FileRecord:
    """Bytes as a file of the store."""
    path = store.tmp_dir / "adopted"
    path.write_bytes(content)
    return store.files.adopt(path)


def new_model(name: str = "m", *, classes: int = 10, **fields: Any) -> NewModel:
    """A model of one input, four float32, but for these fields."""
    smallest: dict[str, Any] = {
        "loss": "cross_entropy",
        "optimizer": "adamw",
        "engine": "sessions",
        "output": "logits",
        "signature": Signature(
            inputs=(TensorSpec("x", "float32", (4,)),),
            target=TargetSpec("labels", "int64", (), classes),
        ),
        "trainable": (),
        "trainable_parameters": 0,
        "frozen_parameters": 0,
        "hyperparameters": {},
        "files": {},
    }
    return NewModel(name, **{**smallest, **fields})


def without_class(model: Model, index: int) -> Model:
    """The model, without one of its classes."""
    target = model.signature.target
    ids = (*target.ids[:index], *target.ids[index + 1 :])
    made = target.classes_made or len(target.ids)
    changed = replace(target, num_classes=len(ids), class_ids=ids, classes_made=made)
    return replace(model, signature=replace(model.signature, target=changed))


def remove_class(store: Store, model: Model, removal: Removal) -> int:
    """Remove it, with the files that are there; how many samples it had."""
    new = without_class(model, removal.index)
    return store.models.change_classes(model, new, (), edit=dict, removal=removal)


def name_classes(store: Store, name: str, classes: tuple[str, ...]) -> Model:
    """Give a model's classes these names."""

    def edit(model: Model) -> Model:
        target = replace(model.signature.target, classes=classes)
        return replace(model, signature=replace(model.signature, target=target))

    return store.models.change(name, edit)[0]


def set_quota(store: Store, model_id: int, quota: Quota) -> int:
    """Bound a model's samples; how many went at once."""
    name = store.models.get_by_id(model_id).name
    return store.models.change(name, lambda now: replace(now, quota=quota))[1]


def occupy_writer(
    pool: Executor, store: Store, going_on: threading.Event, deadline_s: float
) -> None:
    """Have the writer wait for the event; it does when this returns."""
    begun = threading.Event()

    def wait(_: object) -> None:
        begun.set()
        assert going_on.wait(deadline_s)

    pool.submit(store._writer.write, wait)
    assert begun.wait(deadline_s)


def start_job(store: Store, model_id: int) -> Job:
    """A job that runs."""
    job = store.jobs.enqueue(NewJob(model_id, "manual", {}, "latest"))
    return store.jobs.move(job.id, JobState.QUEUED, JobState.RUNNING)


def save_final(store: Store, job: Job) -> Checkpoint:
    """The checkpoint that a job ends with."""
    return store.checkpoints.add(
        model_id=job.model_id,
        job_id=job.id,
        role="final",
        step=1,
        epoch=1,
        engine="sessions 1",
        file=adopt(store, b"checkpoint %d" % job.id),
        state={},
    )


def publish(
    store: Store,
    job: Job,
    content: bytes | None = None,
    *,
    compared_with: int | None = None,
    job_metrics: dict[str, Any] | None = None,
    **fields: Any,
) -> Version | None:
    """End a running job with a version, promoted unless the fields say otherwise."""
    defaults = {"checkpoint_id": None, "promoted": True, "reason": "a test"}
    new = NewVersion(
        model_id=job.model_id,
        job_id=job.id,
        file=adopt(store, content or b"version %d" % job.id),
        **{**defaults, **fields},
    )
    return store.versions.publish(new, compared_with=compared_with, job_metrics=job_metrics or {})


def split_of(sha256: bytes) -> Split:
    """Where a sample that names no split belongs: one in ten, by its digest, to validation."""
    return Split.VALIDATION if sha256 < VALIDATION_BELOW else Split.TRAIN
