"""Repairs the data folder of a stopped daemon: removes what cannot be recovered."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from msgspec import Struct

from storage.backup.reconciling import Lost
from storage.disk.durable import file_faults
from storage.disk.permissions import require_owner
from storage.errors import NotFound
from storage.integrity import Damage
from storage.store import Store


class Repaired(Struct, frozen=True):
    """What was damaged, how many rows were deleted, and what is still damaged."""

    damaged: Damage
    lost: Lost
    left: Damage


def repair(
    data_dir: Path,
    *,
    reading: Callable[[Store], None],
    may_give_up: Callable[[Damage], bool],
) -> Repaired:
    """Restore a damaged database, read everything, and delete the rows whose bytes are wrong.

    reading: reads all stored data and shows its progress. may_give_up: called before anything is
    deleted. Raises NotFound without data, InUse for another user's, DataDirLocked while the daemon
    runs, StorageBroken, StorageFull.
    """
    with file_faults(f"cannot open the data folder {data_dir}"):
        if not (data_dir / "hone.db").exists():
            raise NotFound(f"{data_dir} holds no data; set HONED_DATA_DIR to the daemon's")
        require_owner(data_dir, doing="repair it")
    store = Store.open(data_dir)
    try:
        reading(store)
        damaged = store.integrity.known()
        lost = Lost()
        if damaged and may_give_up(damaged):
            lost = store.verification.give_up_damaged()
        return Repaired(damaged, lost, store.integrity.known())
    finally:
        store.close()
