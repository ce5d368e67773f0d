"""The disk's reserve: the space that uploads must leave free for the device."""

from __future__ import annotations

from pathlib import Path

from storage.disk.durable import free_bytes
from storage.errors import StorageFull, file_size


def require_room(folder: Path, *, reserve_bytes: int, incoming_bytes: int = 0) -> None:
    """Raises StorageFull if the disk of `folder` would have less than the reserve free."""
    free = free_bytes(folder)
    if free - incoming_bytes < reserve_bytes:
        more = f", and this takes {file_size(incoming_bytes)}" if free > reserve_bytes else ""
        raise StorageFull(
            f"the disk has {file_size(free)} free and keeps {file_size(reserve_bytes)} in reserve "
            f"(HONED_DISK_RESERVE_BYTES){more}; delete samples or make room"
        )
