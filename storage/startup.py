"""Repairs at start-up, so that nothing is left half stored."""

from __future__ import annotations

import shutil
from pathlib import Path

from storage.blobs.packs import Packs, cut
from storage.database.connection import Readers
from storage.disk.durable import file_faults
from storage.erasure.deletion import Eraser


def clear_folder(folder: Path) -> None:
    """Remove everything in a folder of temporary files."""
    with file_faults("cannot clear temporary files"):
        for path in folder.iterdir():
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()


def finish_erasures(eraser: Eraser) -> None:
    """Overwrite samples that were deleted but not yet overwritten when the last run ended."""
    for model_id in eraser.pending_models():
        eraser.erase(model_id)


def sweep_packs(readers: Readers, packs: Packs) -> None:
    """Remove packs without a row, and cut off bytes after the last committed one.

    `storage.integrity` reports bytes that a pack has lost.
    """
    with readers.snapshot() as connection:
        rows = connection.execute("SELECT * FROM packs").fetchall()
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
