"""Unpacks an untrusted zip of artifacts: four known names, bounded sizes, nothing else."""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Collection
from pathlib import Path, PurePosixPath

from service.training.errors import pointer, refusal, refuse
from service.training.forward.load import MAX_MODEL_BYTES
from service.zips import ZIP_FAULTS
from storage.disk.durable import is_of_disk
from storage.errors import Problem

MAX_RATIO = 200
"""Maximum ratio of unpacked to packed bytes of an entry; weights hardly compress at all."""
MAX_ENTRIES = 64


def unpack(source: Path, directory: Path, names: Collection[str]) -> None:
    """Write the named entries below `directory`. Raises GraphRefused with every error."""
    try:
        with zipfile.ZipFile(source) as archive:
            entries = _choose(archive.infolist(), names)
            directory.mkdir(parents=True, exist_ok=True)
            for name, entry in entries.items():
                with archive.open(entry) as packed, (directory / name).open("wb") as plain:
                    shutil.copyfileobj(packed, plain, 1 << 20)
    except (*ZIP_FAULTS, OSError) as error:
        if isinstance(error, OSError) and is_of_disk(error):
            raise
        raise refuse(
            "/artifacts", f"this is not a whole zip: {error}; pack {', '.join(names)} again"
        ) from None


def _choose(entries: list[zipfile.ZipInfo], names: Collection[str]) -> dict[str, zipfile.ZipInfo]:
    if len(entries) > MAX_ENTRIES:
        raise refuse("/artifacts", f"the zip has {len(entries)} entries; pack the artifacts alone")
    problems = [problem for entry in entries if (problem := _fault(entry))]
    chosen: dict[str, zipfile.ZipInfo] = {}
    for entry in entries:
        name = PurePosixPath(entry.filename).name
        if name in names and not entry.is_dir():
            if name in chosen:
                problems.append(Problem(pointer("artifacts", name), f"{name} is in the zip twice"))
            chosen[name] = entry
    problems += [
        Problem(pointer("artifacts", name), f"{name} is missing from the zip")
        for name in names
        if name not in chosen
    ]
    if problems:
        raise refusal(problems)
    return chosen


def _fault(entry: zipfile.ZipInfo) -> Problem | None:
    path = PurePosixPath(entry.filename.replace("\\", "/"))
    place = pointer("artifacts", entry.filename)
    if path.is_absolute() or ".." in path.parts or ":" in entry.filename:
        return Problem(place, "the entry's name leads out of the zip; pack plain file names")
    if entry.flag_bits & 1:
        return Problem(place, "the entry is encrypted; pack it without a password")
    if entry.file_size > MAX_MODEL_BYTES:
        return Problem(place, f"{entry.file_size} bytes, at most {MAX_MODEL_BYTES} are taken")
    if entry.file_size > MAX_RATIO * max(entry.compress_size, 1 << 10):
        return Problem(place, f"unpacks to more than {MAX_RATIO} times its size; store it plainly")
    return None
