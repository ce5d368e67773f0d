"""The sandbox of a task: it may only access the task's files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeGuard

from msgspec.structs import astuple

from service.processes import sandbox
from storage.disk.durable import make_folder

if TYPE_CHECKING:
    from service.training.protocol.messages.shared import Artifacts, Measurement
    from service.training.protocol.messages.training import Teacher, Train
    from service.training.protocol.messages.unions import Task

OF_FILES_ALONE = ("prepare", "diagnose")
"""Kinds of tasks that read no samples."""
ONE_FILE = ("source", "model", "candidate", "baseline")
"""Fields of tasks with the path of a file to read."""


def confine(task: Task) -> None:
    """Restrict this process to the task's files, for good."""
    folders = list(own_folders(task))
    for folder in folders:
        make_folder(
            Path(folder), parents=True
        )  # Landlock cannot allow a folder that does not exist
    sandbox.enter(
        readable=readable(task),
        writable=[*folders, *log_index(task)],
        accelerators=bool(getattr(task, "providers", ())),
    )


def readable(task: Task) -> Iterator[str]:
    """Models, checkpoints, the model's packs, and the database with its log."""
    for part in _parts(task):
        yield from (getattr(part, name) for name in ONE_FILE if hasattr(part, name))
    for measurement in (task, *_measurements(task)):
        if (tokenizer := getattr(measurement, "tokenizer", None)) is not None:
            yield tokenizer
    if _trains(task):
        yield from artifacts(task.artifacts)
        start, update = task.start, task.update
        yield from filter(
            None, (start.checkpoint, start.best_checkpoint, start.given, start.teacher)
        )
        if update is not None:
            yield from filter(None, (update.given, update.residual))
    samples = samples_of(task)
    if samples is not None:
        yield str(Path(samples.packs) / str(samples.model_id))
        yield samples.database
        yield f"{samples.database}-wal"
    adapted = getattr(task, "adapted", None)
    if adapted is not None:
        yield from filter(None, astuple(adapted))
    for measured in _measurements(task):
        if measured.own_loss is not None:
            yield from astuple(measured.own_loss)


def own_folders(task: Task) -> Iterator[str]:
    """Folders that the task writes to: its working folder, and the cache of the model's rows."""
    if hasattr(task, "work_dir"):
        yield task.work_dir
    for part in (task, *_measurements(task)):
        cache = getattr(part, "cache", None)
        if cache is not None:
            yield cache


def log_index(task: Task) -> Iterator[str]:
    """The index of the database's log, where SQLite's readers mark how far they have read."""
    samples = samples_of(task)
    if samples is not None:
        yield f"{samples.database}-shm"


def samples_of(task: Task) -> Train | Measurement | None:
    """The part of the task that names its samples; None if it only reads files."""
    return task if _trains(task) else getattr(task, "measurement", None)


def _trains(task: Task) -> TypeGuard[Train]:
    return task.kind == "train"


def _measurements(task: Task) -> Iterator[Measurement]:
    """How the task measures models: the candidate, and a baseline or teacher of another base."""
    for part in _parts(task):
        named = (getattr(part, name, None) for name in ("measurement", "baseline_measurement"))
        yield from filter(None, named)


def _parts(task: Task) -> Iterator[Task | Teacher]:
    """The task, and the version that teaches it."""
    yield task
    if (teacher := getattr(task, "teacher", None)) is not None:
        yield teacher


def artifacts(named: Artifacts) -> Iterator[str]:
    """Every file of a model's artifacts."""
    yield from filter(None, astuple(named))
