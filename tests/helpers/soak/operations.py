"""What is done to a store in the soak: chosen so that it can be carried out, and carried out."""

from __future__ import annotations

import os
import random
from contextlib import closing
from pathlib import Path
from typing import Any

from comparing import archive, data_dir, open_store
from truth import MODEL, RECORD_BYTES, Truth, content, time_of

from service.backup.backup import write_backup
from service.backup.contents import open_backup, read_contents
from service.backup.restore import restore
from storage.database.connection import connect_reader
from storage.disk.durable import publish
from storage.errors import HoneError, StorageBroken
from storage.samples.filter import SampleFilter

KINDS = (
    "add",
    "at once",
    "at once",
    "delete",
    "delete label",
    "label",
    "alias",
    "backup",
    "compact",
    "archive",
    "restore",
    "damage",
)
LABELS, VERSIONS, MOST_SAMPLES = 5, 3, 150
AT_ONCE, MOST_DELETED = 4, 30
"""Threads of operations at once, and how many single samples they may delete."""
MOST_HOURS = 30
"""Between two times of the soak's calendar: own backups are of several days."""
_NOT_A_DATABASE = b"damaged " * 25
_MAY_FAIL_AT_ITS_END = ("delete label", "backup", "restore", "damage")


def choose(chance: random.Random, truth: Truth) -> dict[str, Any]:
    """An operation that the store can carry out."""
    kind, label = _kind(chance, truth), chance.randrange(LABELS)
    asked: dict[str, Any] = {"do": kind, "hour": truth.hour + chance.randrange(1, MOST_HOURS)}
    match kind:
        case "add":
            asked = _upload(chance)
        case "at once":
            asked = {"do": kind, "each": _at_once(chance, truth, label)}
        case "delete" | "label":
            asked |= {"number": chance.choice(sorted(truth.samples)), "label": label}
        case "delete label":
            asked |= {"label": label, "later": chance.random() < 0.3}
        case "alias":
            asked |= {"alias": f"a{label}", "version": 1 + chance.randrange(VERSIONS)}
        case "restore":
            asked |= {"archive": chance.choice(sorted(truth.archives))}
        case "damage":
            asked |= {"gone": chance.random() < 0.5}
    return asked


def _kind(chance: random.Random, truth: Truth) -> str:
    if len(truth.samples) > MOST_SAMPLES:
        return "delete label"
    kind = chance.choice(KINDS)
    wants = {
        "delete": (truth.samples, "add"),
        "label": (truth.samples, "add"),
        "restore": (truth.archives, "archive"),
        "damage": (truth.backups, "backup"),
    }
    there, instead = wants.get(kind, (True, ""))
    return kind if there else instead


def _at_once(chance: random.Random, truth: Truth, label: int) -> list[dict[str, Any]]:
    """Uploads, deletions of single samples, and one of a label that none of these has."""
    asked = [_upload(chance, without=label) for _ in range(chance.randrange(2, AT_ONCE + 1))]
    asked += [{"do": "delete label", "label": label, "later": False}] * chance.randrange(2)
    others = sorted(number for number, stored in truth.samples.items() if stored != label)
    gone = chance.sample(others, min(len(others), chance.randrange(MOST_DELETED)))
    asked += [{"do": "delete", "number": number} for number in gone]
    chance.shuffle(asked)
    return asked


def _upload(chance: random.Random, *, without: int | None = None) -> dict[str, Any]:
    """Of one, few or some samples of one label."""
    numbers = [chance.getrandbits(60) for _ in range(chance.choice((1, 3, 20)))]
    label = chance.choice([number for number in range(LABELS) if number != without])
    return {"do": "add", "numbers": numbers, "labels": [label] * len(numbers)}


class Life:
    """A store from one opening to its end, and the ids of its samples by their bytes."""

    def __init__(self, device: Path) -> None:
        self._device = device
        self._open()

    def close(self) -> None:
        """End well."""
        self._store.close()

    def attempt(self, asked: dict[str, Any]) -> dict[str, Any] | None:
        """What came of an operation; None if nobody knows."""
        try:
            self._carry_out(asked)
        except StorageBroken:
            return None
        except HoneError as error:
            return (
                None if asked["do"] in _MAY_FAIL_AT_ITS_END else {"done": False, "why": error.code}
            )
        return {"done": True}

    def _open(self) -> None:
        self._store = open_store(data_dir(self._device))
        self._model_id = self._store.models.get(MODEL).id
        rows = self._store.samples.list(self._model_id, limit=10_000)
        self._ids = {self._store.samples.content(self._model_id, row.id): row.id for row in rows}

    def _carry_out(self, asked: dict[str, Any]) -> None:
        store, model_id = self._store, self._model_id
        match asked["do"]:
            case "add":
                self._add(asked)
            case "delete":
                store.samples.delete(model_id, self._ids[content(asked["number"])])
            case "delete label":
                self._delete_label(asked["label"], later=asked["later"])
            case "label":
                id_ = self._ids[content(asked["number"])]
                store.samples.update(model_id, id_, label=asked["label"])
            case "alias":
                store.aliases.set(model_id, asked["alias"], asked["version"])
            case "backup":
                store.backups.make(time_of(asked["hour"]))
            case "compact":
                store.eraser.erase_at_rest(model_id)
            case "archive":
                self._archive(asked["hour"])
            case "restore" | "damage":
                self._go_back(asked)

    def _add(self, asked: dict[str, Any]) -> None:
        records = [*map(content, asked["numbers"])]
        with self._store.samples.stage(self._model_id, RECORD_BYTES) as staging:
            staging.add(b"".join(records), asked["labels"])
            first = staging.commit().first_id
        assert first is not None
        self._ids.update(zip(records, range(first, first + len(records)), strict=True))

    def _delete_label(self, label: int, *, later: bool) -> None:
        """later: another reads meanwhile, so that the erasure stays recorded."""
        with closing(connect_reader(self._store.database)) as other:
            if later:
                other.execute("BEGIN")
                other.execute("SELECT 1 FROM models").fetchall()
            self._store.samples.delete_where(self._model_id, SampleFilter(label=label))

    def _archive(self, hour: int) -> None:
        """As `honed backup` does."""
        snapshot = self._store.snapshot()
        partial = archive(self._device, hour).with_suffix(".partial")
        with closing(snapshot), partial.open("wb") as file:
            file.writelines(write_backup(snapshot, now=time_of(0)))
            file.flush()
            os.fsync(file.fileno())
        publish(partial, archive(self._device, hour))

    def _go_back(self, asked: dict[str, Any]) -> None:
        self._store.close()
        if asked["do"] == "restore":
            self._restore(asked["archive"], asked["hour"])
        else:
            self._damage(gone=asked["gone"])
        self._open()

    def _restore(self, made: int, hour: int) -> None:
        """As `honed restore --replace` does."""
        path, folder = archive(self._device, made), data_dir(self._device)
        with open_backup(path) as opened:
            contents = read_contents(opened, archive_bytes=path.stat().st_size)
            restore(
                opened,
                contents,
                folder,
                set_aside=True,
                now=time_of(hour),
                advance=lambda _: None,
            )

    def _damage(self, *, gone: bool) -> None:
        """What a disk may do to a database."""
        database = data_dir(self._device) / "hone.db"
        if gone:
            database.unlink()
            return
        with database.open("r+b") as file:
            file.write(_NOT_A_DATABASE)
