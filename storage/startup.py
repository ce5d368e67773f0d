"""Repairs at start-up, so that nothing is left half stored."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from storage.backup.copies import Copies
from storage.blobs.cache_folder import expect_checks
from storage.blobs.packs import Packs, cut
from storage.database.codec import dump
from storage.database.connection import Readers, sqlite3
from storage.disk.durable import file_faults
from storage.erasure.deletion import Eraser
from storage.erasure.sample_rows import RewrittenPack
from storage.erasure.unlearning import Unlearning

_PLACES = """
SELECT id, pack, offset, size_bytes FROM samples JOIN packs USING (model_id, pack)
WHERE model_id = ? AND id IN (SELECT value FROM json_each(?))
"""


def clear_folder(folder: Path) -> None:
    """Remove everything in a folder of temporary files."""
    with file_faults("cannot clear temporary files"):
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def finish_erasures(unlearning: Unlearning, eraser: Eraser) -> None:
    """Delete versions, and overwrite deleted samples, where the last run had not done it yet."""
    unlearning.finish()
    for model_id in eraser.pending_models():
        eraser.erase(model_id)


def finish_moves(readers: Readers, packs: Packs, copies: Copies) -> None:
    """Record in own backups the packs that were rewritten just before the last run ended."""
    with readers.snapshot() as connection:
        rows = connection.execute("SELECT model_id, pack FROM packs").fetchall()
        stored = {(row["model_id"], row["pack"]) for row in rows}
        for path in packs.folder.glob("*/*.pack"):
            if (place := (int(path.parent.name), int(path.stem))) not in stored:
                copies.follow_samples(*place, partial(_moved, connection, place[0]))


def _moved(
    connection: sqlite3.Connection, model_id: int, ids: Sequence[int]
) -> RewrittenPack | None:
    """The pack that these samples are in; None if they are deleted."""
    found = connection.execute(_PLACES, (model_id, dump([*ids]))).fetchall()
    if not found:
        return None
    moves = [(row["offset"], row["id"]) for row in found]
    return RewrittenPack(found[0]["pack"], found[0]["size_bytes"], moves)


def sweep_packs(readers: Readers, packs: Packs) -> None:
    """Remove packs without a row, and cut off bytes after the last committed one; have the caches
    of all checked when they are used next.

    `storage.integrity` reports bytes that a pack has lost.
    """
    with readers.snapshot() as connection:
        rows = connection.execute("SELECT * FROM packs").fetchall()
    expect_checks(packs.cache_dir)
    sizes = {packs.path(row["model_id"], row["pack"]): row["size_bytes"] for row in rows}
    with file_faults("cannot sweep packs"):
        for path in packs.folder.glob("*/*"):
            if path not in sizes:
                path.unlink()
        for path, size_bytes in sizes.items():
            if path.exists():
                cut(path, size_bytes)
        for folder in packs.folder.iterdir():
            if not any(folder.iterdir()):
                folder.rmdir()
