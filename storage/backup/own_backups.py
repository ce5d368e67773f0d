"""The daemon's own backups: a few verified copies of the database, of different days."""

from __future__ import annotations

from contextlib import closing
from datetime import date, datetime, timezone
from pathlib import Path

from storage.backup.copies import (
    Copies,
    check_copy,
    copy_database,
    remove_copy,
    require_room_for_copy,
)
from storage.database.connection import Readers, connect_reader, translated
from storage.disk.durable import file_faults, publish

KEPT = 3
_STAMP = "%Y%m%dT%H%M%SZ"
_DRAFT = "draft"


class OwnBackups:
    """Copies below `folder`, named by their time."""

    def __init__(self, folder: Path, *, database: Path, readers: Readers, copies: Copies) -> None:
        self._folder = folder
        self._database = database
        self._readers = readers
        self._copies = copies

    def newest(self, now: datetime) -> datetime | None:
        """When the newest was made; later than now only if the clock was wrong for all of them."""
        backups = listed(self._folder, now)
        return made_at(backups[0]) if backups else None

    def made(self, now: datetime) -> list[tuple[datetime, int]]:
        """When each was made, and its bytes; newest first."""
        return [(made_at(path), path.stat().st_size) for path in listed(self._folder, now)]

    def make(self, now: datetime) -> Path | None:
        """Make and verify one, and remove those beyond `KEPT` days; None if there is no data yet.

        Raises StorageFull, StorageBroken; DatabaseDamaged if the copied database is damaged.
        """
        draft = self._folder / _DRAFT
        final = self._folder / f"{now.astimezone(timezone.utc).strftime(_STAMP)}.db"
        with file_faults("cannot keep a backup"), self._copies.making():
            remove_copy(draft)
            try:
                if not self._copy(draft):
                    return None
                check_copy(draft)
                publish(draft, final)
            finally:
                remove_copy(draft)
            self._prune(now)
        return final

    def forget_deleted_models(self) -> None:
        """Delete from every backup the models that are deleted."""
        self._copies.forget_models(self._model_ids)

    def _model_ids(self) -> list[int]:
        return [row["id"] for row in self._readers.all("SELECT id FROM models")]

    def _copy(self, draft: Path) -> bool:
        """False if no model is there to be kept."""
        require_room_for_copy(self._database)
        with translated(), closing(connect_reader(self._database)) as reader:
            reader.execute("BEGIN")
            if reader.execute("SELECT 1 FROM models").fetchone() is None:
                return False
            copy_database(reader, draft)
        return True

    def _prune(self, now: datetime) -> None:
        days: set[date] = set()
        for path in listed(self._folder, now):
            day = made_at(path).date()
            if day in days or len(days) == KEPT:
                remove_copy(path)
            else:
                days.add(day)


def listed(folder: Path, now: datetime) -> list[Path]:
    """The backups of a folder, newest first; those dated in the future count as the oldest."""
    backups = [path for path in folder.glob("*.db") if _is_named(path)]
    return sorted(backups, key=lambda path: (made_at(path) <= now, made_at(path)), reverse=True)


def made_at(path: Path) -> datetime:
    """When a backup was made."""
    return datetime.strptime(path.stem, _STAMP).replace(tzinfo=timezone.utc)


def _is_named(path: Path) -> bool:
    try:
        made_at(path)
    except ValueError:
        return False
    return True
