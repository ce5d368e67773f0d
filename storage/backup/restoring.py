"""At start-up, replaces a damaged or missing database with the newest intact backup.

Each restoration has a folder `broken/<time>` with the damaged database and a note. The note is
written first, so that the next start can continue an interrupted one.
"""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict, replace

from storage.backup.copies import FILES_OF_DATABASE, check_copy
from storage.backup.own_backups import listed, made_at
from storage.backup.reconciling import Lost
from storage.database.codec import dump, dump_time
from storage.database.connection import sqlite3
from storage.database.opening import is_lost, open_database
from storage.disk.durable import file_faults, make_folder, sync_file, sync_folder, write_file
from storage.errors import DatabaseDamaged, StorageBroken, in_words

logger = logging.getLogger(__name__)

NOTE = "note.json"
_STAMP = "%Y%m%dT%H%M%S%fZ"
_NO_BACKUP = (
    "{reason}; {folder} holds no backup that is sound. Restore one of yours: "
    "`honed restore FILE --replace`. To begin anew instead, move {data_dir} elsewhere"
)


class Restoration(Struct, frozen=True):
    """The restoration. backup_from: when the backup in use was made; newer data are lost.

    set_aside: the folder of the damaged database. lost: rows deleted because their bytes are
    missing, None until that is known.
    """

    restored_at: str
    backup_from: str
    reason: str
    set_aside: str
    lost: dict[str, int] | None = None


def open_sound_database(data_dir: Path, *, check: bool, now: datetime) -> sqlite3.Connection:
    """The writing connection, if necessary to the newest intact backup.

    check: look for damage first. Raises StorageBroken if there is damage and no such backup,
    StorageFull, UnknownSchema.
    """
    path = data_dir / "hone.db"
    try:
        if not is_lost(data_dir):
            return open_database(path, check=check)
        reason = "the database is gone, and samples or files are there"
    except DatabaseDamaged as error:
        by_sqlite = error.__cause__
        reason = f"the database is damaged ({by_sqlite})" if by_sqlite else error.detail
    _restore_newest(data_dir, reason, now=now)
    return open_database(path, check=False)


def _restore_newest(data_dir: Path, reason: str, *, now: datetime) -> None:
    """Set the database aside, and put the newest intact backup in its place.

    Raises StorageBroken if there is none; then nothing has changed.
    """
    backup = _newest_sound(data_dir / "backups", now)
    if backup is None:
        folder = data_dir / "backups"
        raise StorageBroken(_NO_BACKUP.format(reason=reason, folder=folder, data_dir=data_dir))
    with file_faults("cannot restore the database"):
        draft = data_dir / "tmp" / "hone.db"
        shutil.copyfile(backup, draft)
        draft.chmod(0o600)
        with draft.open("r+b") as file:
            sync_file(file)
        aside = data_dir / "broken" / now.astimezone(timezone.utc).strftime(_STAMP)
        make_folder(aside, parents=True)
        restoration = Restoration(
            restored_at=dump_time(now),
            backup_from=dump_time(made_at(backup)),
            reason=reason,
            set_aside=str(aside),
        )
        _write_note(restoration)
        for name in FILES_OF_DATABASE:
            if (data_dir / name).exists():
                (data_dir / name).replace(aside / name)
        draft.replace(data_dir / "hone.db")
        sync_folder(data_dir)


def unreconciled(data_dir: Path) -> Restoration | None:
    """A restoration whose rows have not been compared with the files yet."""
    return next((note for note in _notes(data_dir) if note.lost is None), None)


def newest_restoration(data_dir: Path) -> Restoration | None:
    """The newest restoration that has not been acknowledged by removing its folder."""
    return next(_notes(data_dir), None)


def note_lost(data_dir: Path, lost: Lost) -> None:
    """Record the loss in every restoration without that entry."""
    for note in _notes(data_dir):
        if note.lost is None:
            _write_note(replace(note, lost=asdict(lost)))


def _write_note(restoration: Restoration) -> None:
    """Store it with the database that was set aside."""
    note = dump(asdict(restoration), indent=2, ensure_ascii=True)
    write_file(Path(restoration.set_aside) / NOTE, note.encode())


def _notes(data_dir: Path) -> Iterator[Restoration]:
    """Newest first."""
    for path in sorted((data_dir / "broken").glob(f"*/{NOTE}"), reverse=True):
        try:
            fields: dict[str, Any] = json.loads(path.read_text("utf-8"))
            yield Restoration(**{**fields, "set_aside": str(path.parent)})
        except (OSError, ValueError, TypeError) as error:
            logger.warning(
                "restoration.note_unreadable", extra={"fields": {"error": in_words(error)}}
            )


def _newest_sound(folder: Path, now: datetime) -> Path | None:
    for path in listed(folder, now):
        try:
            check_copy(path)
        except StorageBroken as error:
            logger.error(
                "backup.not_sound", extra={"fields": {"file": path.name, "error": error.detail}}
            )
        else:
            return path
    return None
