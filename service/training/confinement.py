"""The sandbox of a task: it may only access the task's files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import astuple

from service.processes import sandbox
from service.training.protocol.messages.shared import Artifacts
from storage.disk.durable import make_folder

if TYPE_CHECKING:
    from service.training.protocol.messages.unions import Task

OF_FILES_ALONE = ("prepare", "diagnose")
"""Kinds of tasks that read no samples."""
READ = (
    *("source", "model", "candidate", "baseline", "tokenizer"),
    *("checkpoint", "best_checkpoint", "given", "teacher", "residual", "trained"),
    *Artifacts.__struct_fields__,
)
"""Fields of a task, or of a part of it, with the path of a file to read."""


def confine(task: Task) -> None:
    """Restrict this process to the task's files, for good."""
    parts = list(_parts(task))
    # What is temporary goes to the first of them.
    folders = [*_texts(parts, "work_dir"), *_texts(parts, "cache")]
    for folder in folders:  # Landlock cannot allow a folder that does not exist
        make_folder(Path(folder), parents=True)
    packs = {Path(part.packs) / str(part.model_id) for part in parts if hasattr(part, "packs")}
    databases = set(_texts(parts, "database"))
    logs = [f"{database}-wal" for database in databases]
    # SQLite's readers mark in the index of the log how far they have read.
    indices = [f"{database}-shm" for database in databases]
    sandbox.enter(
        readable=[*_texts(parts, *READ), *packs, *databases, *logs],
        writable=[*folders, *indices],
        accelerators=bool(getattr(task, "providers", ())),
    )


def _parts(whole: Struct) -> Iterator[Any]:
    """A task, and all that it is made of."""
    yield whole
    for value in astuple(whole):
        if isinstance(value, Struct):
            yield from _parts(value)


def _texts(parts: list[Any], *names: str) -> list[str]:
    """What fields of these names hold, if that is a text."""
    values = (getattr(part, name, None) for part in parts for name in names)
    return [value for value in values if isinstance(value, str)]
