"""A backup that is not true changes nothing."""

from __future__ import annotations

import io
import sqlite3
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from backups import (
    back_up,
    fill,
    flipped,
    kept,
    put_back,
    rewritten,
    same,
    with_content,
    with_manifest,
)

from service.backup.contents import open_backup, read_contents
from service.errors import InvalidInput
from storage.errors import HoneError, StorageBroken, UnknownSchema
from storage.store import Store


@pytest.fixture
def source(tmp_path: Path) -> Path:
    fill(tmp_path / "source", "new", 20)
    return tmp_path / "source"


def entry(name: str, mode: int = 0o100600) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def listed(archive: bytes, name: str, content: bytes, mode: int = 0o100600) -> bytes:
    """An entry more, and the manifest lists it."""

    def add(manifest: dict[str, Any]) -> None:
        digest = sha256(content).hexdigest()
        manifest["files"].append({"name": name, "size_bytes": len(content), "sha256": digest})

    return with_manifest(rewritten(archive, same, (entry(name, mode), content)), add)


def compressed(info: zipfile.ZipInfo, content: bytes) -> tuple[zipfile.ZipInfo, bytes]:
    info.compress_type = zipfile.ZIP_DEFLATED
    return info, content


def without_packs(info: zipfile.ZipInfo, content: bytes) -> tuple[zipfile.ZipInfo, bytes] | None:
    return None if info.filename.startswith("packs/") else (info, content)


def corrupt(database: bytes) -> bytes:
    pages = bytearray(database)
    for page in range(10, len(pages) // 4096):
        pages[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    return bytes(pages)


def drop_file(archive: bytes) -> bytes:
    """The database names a file that is neither there nor said to be missing."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        name = next(each for each in opened.namelist() if each.startswith("files/"))

    def forget(manifest: dict[str, Any]) -> None:
        manifest["files"] = [file for file in manifest["files"] if file["name"] != name]

    changed = with_manifest(archive, forget)
    return rewritten(changed, lambda info, data: None if info.filename == name else (info, data))


def altered(sql: str) -> Callable[[bytes], bytes]:
    """A backup whose database somebody has run these statements in."""

    def alter(content: bytes) -> bytes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "hone.db")
            path.write_bytes(content)
            with closing(sqlite3.connect(path)) as connection:
                connection.executescript(f"PRAGMA foreign_keys = OFF; {sql};")
            return path.read_bytes()

    return lambda data: with_content(data, "hone.db", alter)


def not_utf8(archive: bytes) -> bytes:
    added = rewritten(archive, same, (entry("p\u00e4ck"), b"x"))
    return added.replace("p\u00e4ck".encode(), b"p\xff\xa4ck")


CLIMBING = "../" * 21 + "x"
ELSEWHERE = "packs/../../elsewhere"
BAD: dict[str, tuple[Callable[[bytes], bytes], str]] = {
    "no zip": (lambda _: b"no zip at all", "no whole zip"),
    "cut off": (lambda data: data[:-40], "no whole zip"),
    "of samples": (
        lambda data: with_manifest(data, lambda m: m.update(format="hone-samples")),
        "not 'hone-backup'",
    ),
    "of a later format": (
        lambda data: with_manifest(data, lambda m: m.update(version=2)),
        "this Hone reads 1",
    ),
    "manifest of nothing": (
        lambda data: with_manifest(data, lambda m: m.update(files=[{"name": 1}])),
        "not one that Hone wrote",
    ),
    "climbs": (lambda data: listed(data, ELSEWHERE, b"x"), "has this name"),
    "absolute": (lambda data: listed(data, "/tmp/elsewhere", b"x"), "has this name"),
    # zipfile of Windows reads them as slashes, so that the manifest names other files.
    "backslashes": (
        lambda data: listed(data, "packs\\1\\2.pack", b"x"),
        "has this name|does not list it",
    ),
    "token": (lambda data: listed(data, "admin.token", b"x"), "has this name"),
    "pack of model 0": (lambda data: listed(data, "packs/0/1.pack", b"x"), "has this name"),
    "link": (lambda data: listed(data, "packs/9/1.pack", b"/etc", 0o120777), "no plain file"),
    "not listed": (
        lambda data: rewritten(data, same, (entry("packs/9/1.pack"), b"x")),
        "does not list it",
    ),
    "not there": (lambda data: rewritten(data, without_packs), "it is not there"),
    "compressed": (lambda data: rewritten(data, compressed), "are stored"),
    "longer": (
        lambda data: rewritten(data, lambda i, c: (i, c + b"1" if "packs" in i.filename else c)),
        "the manifest says",
    ),
    "flipped sample": (
        lambda data: rewritten(data, lambda i, c: (i, flipped(c) if "pack" in i.filename else c)),
        "SHA-256 is not the one",
    ),
    "file under a name that is not its hash": (
        lambda data: with_content(data, "files/", flipped),
        "SHA-256 is not the one",
    ),
    "flipped in transit": (lambda data: data[:200] + b"\xff\xff" + data[202:], "damaged"),
    "pack cut short": (
        lambda data: with_content(data, "packs/", lambda content: content[:-1]),
        "not in it",
    ),
    "file gone": (drop_file, "not in it"),
    "damaged database": (lambda data: with_content(data, "hone.db", corrupt), "damaged|malformed"),
    "trigger": (
        altered("CREATE TRIGGER more AFTER INSERT ON events BEGIN DELETE FROM models; END"),
        "trigger that is not Hone's: 'more'",
    ),
    "another trigger under our name": (
        altered(
            "DROP TRIGGER samples_uncounted; CREATE TRIGGER samples_uncounted AFTER INSERT ON "
            "events BEGIN DELETE FROM models; END"
        ),
        "trigger that is not Hone's: 'samples_uncounted'",
    ),
    "view": (
        altered("DROP TABLE triggers; CREATE VIEW triggers AS SELECT 1 AS id"),
        "view that is not Hone's",
    ),
    "virtual table under another name": (
        altered(
            "PRAGMA writable_schema = ON; INSERT INTO sqlite_schema VALUES"
            "('table', 'more', 'more', 0, 'CREATE/**/VIRTUAL TABLE more USING fts5(x)')"
        ),
        "table that is not Hone's: 'more'",
    ),
    "index that runs a function": (
        altered("CREATE INDEX more ON events (abs(id))"),
        "index that is not Hone's: 'more'",
    ),
    "constraint that takes memory": (
        altered(
            "PRAGMA writable_schema = ON; UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', "
            "', CHECK (length(zeroblob(300000000)) = 1)) STRICT') WHERE name = 'events'"
        ),
        "table that is not Hone's: 'events'",
    ),
    "trigger gone": (
        altered("DROP TRIGGER samples_uncounted"),
        "lacks the trigger 'samples_uncounted'",
    ),
    "file that climbs": (
        altered(f"INSERT INTO files VALUES ('{CLIMBING}', 1)"),
        "which is no SHA-256",
    ),
    "row that refers to nothing": (altered("DELETE FROM files"), "that is not there"),
    "model that cannot be read": (
        altered("UPDATE models SET target = '[]'"),
        "Hone did not write its rows",
    ),
    "name that is not UTF-8": (not_utf8, "no whole zip"),
    "half a character": (
        lambda data: with_manifest(data, lambda m: m.update(missing=["\ud800"])),
        "cannot be read",
    ),
    "no database": (
        lambda data: with_content(data, "hone.db", lambda _: b"text " * 2000),
        "not a database",
    ),
}


@pytest.mark.parametrize("kind", BAD)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_backup_that_is_not_true_changes_nothing(source: Path, tmp_path: Path, kind: str) -> None:
    spoil, words = BAD[kind]
    archive = spoil(back_up(source))
    target = tmp_path / "target"
    fill(target, "old", 3)
    before = kept(target)
    files = sorted(path for path in tmp_path.rglob("*"))

    with pytest.raises(HoneError) as raised:
        put_back(archive, target, set_aside=True)

    told = " ".join([raised.value.detail, *(problem.detail for problem in raised.value.problems)])
    assert any(part in told for part in words.split("|")), told
    assert isinstance(raised.value, InvalidInput | StorageBroken)
    assert kept(target) == before
    assert sorted(set(tmp_path.rglob("*")) - set(files)) == [tmp_path / "target.zip"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_an_entry_that_is_there_twice_is_refused(source: Path, tmp_path: Path) -> None:
    archive = back_up(source)
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        database = opened.read("hone.db")

    with pytest.raises(InvalidInput) as raised:
        put_back(rewritten(archive, same, (entry("hone.db"), database)), tmp_path / "target")

    assert "it is there twice" in [problem.detail for problem in raised.value.problems]


def test_a_manifest_is_not_made_into_objects_before_it_is_known_to_be_one(tmp_path: Path) -> None:
    content = b'{"format": "hone-backup", "version": 1, "files": [' + b"[]," * 10_000_000 + b"[]]}"
    file = tmp_path / "bomb.zip"
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("manifest.json", content)
    assert file.stat().st_size < 100_000
    tracemalloc.start()
    try:
        with open_backup(file) as opened, pytest.raises(InvalidInput) as raised:
            read_contents(opened, archive_bytes=file.stat().st_size)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert "not one that Hone wrote" in raised.value.problems[0].detail
    assert peak_bytes < 3 * len(content)


def test_a_backup_of_a_newer_hone_is_refused(source: Path, tmp_path: Path) -> None:
    store = Store.open(source)
    store.close()
    with sqlite3.connect(source / "hone.db") as connection:
        connection.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) "
            "VALUES ('hone', 'm999_future', 'then')"
        )
    connection.close()
    content = (source / "hone.db").read_bytes()
    fill(tmp_path / "other", "other", 20)
    archive = with_content(back_up(tmp_path / "other"), "hone.db", lambda _: content)

    with pytest.raises(UnknownSchema, match="m999_future"):
        put_back(archive, tmp_path / "target")
    told = with_manifest(archive, lambda manifest: manifest.update(schema="m999_future"))
    with pytest.raises(UnknownSchema, match=r"m999_future.*restore it with honed \d"):
        put_back(told, tmp_path / "target")
    assert not (tmp_path / "target" / "hone.db").exists()
