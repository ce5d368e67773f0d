"""A backup that is not true changes nothing; a restore that is cut short is finished or undone."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import stat
import subprocess
import sys
import zipfile
from collections.abc import Callable
from datetime import datetime, timezone
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from stored import adopt, new_model

from service.backup import write_backup
from service.backup_contents import open_backup, read_contents
from service.errors import InvalidInput
from service.restore import Restored, restore
from storage.errors import AlreadyExists, DataDirLocked, HoneError, StorageBroken, UnknownSchema
from storage.settlement import Lost
from storage.store import Store

NOW = datetime(2026, 1, 31, 12, tzinfo=timezone.utc)
RECORD_BYTES = 16


def fill(data_dir: Path, name: str, samples: int) -> None:
    store = Store.open(data_dir)
    new = new_model(name, files={"training_model": adopt(store, b"training of " + name.encode())})
    model = store.models.add(new, adopt(store, b"base of " + name.encode()))
    with store.samples.stage(model.id, RECORD_BYTES) as staging:
        staging.add(os.urandom(RECORD_BYTES * samples), [1] * samples)
        staging.commit()
    store.close()


def back_up(data_dir: Path) -> bytes:
    store = Store.open(data_dir)
    snapshot = store.snapshot()
    archive = b"".join(write_backup(snapshot, now=NOW))
    snapshot.close()
    store.close()
    return archive


def put_back(archive: bytes, data_dir: Path, *, set_aside: bool = False) -> Restored:
    file = data_dir.with_name(f"{data_dir.name}.zip")
    file.write_bytes(archive)
    with open_backup(file) as opened:
        contents = read_contents(opened, archive_bytes=len(archive))
        return restore(
            opened, contents, data_dir, set_aside=set_aside, now=NOW, advance=lambda _: None
        )


def kept(data_dir: Path) -> tuple[list[str], list[bytes]]:
    """Names of the models, and the bytes of all samples."""
    store = Store.open(data_dir)
    try:
        models = store.models.list(10)
        contents = [
            store.samples.content(model.id, sample.id)
            for model in models
            for sample in store.samples.list(model.id, limit=1000)
        ]
        for model in models:
            for file in model.files.values():
                assert sha256(store.files.path(file.sha256).read_bytes()).hexdigest() == file.sha256
        return [model.name for model in models], contents
    finally:
        store.close()


@pytest.fixture
def source(tmp_path: Path) -> Path:
    fill(tmp_path / "source", "new", 20)
    return tmp_path / "source"


def test_what_is_restored_is_what_was_backed_up(source: Path, tmp_path: Path) -> None:
    done = put_back(back_up(source), tmp_path / "target")

    assert kept(tmp_path / "target") == kept(source)
    assert (done.models, done.samples, done.set_aside, done.lost) == (1, 20, None, Lost())


@pytest.mark.skipif(os.name == "nt", reason="Windows has no mode bits")
def test_only_the_owner_may_read_what_is_restored(source: Path, tmp_path: Path) -> None:
    put_back(back_up(source), tmp_path / "target")

    modes = {
        (path.is_dir(), stat.S_IMODE(path.stat().st_mode))
        for path in (tmp_path / "target", *(tmp_path / "target").rglob("*"))
    }
    assert modes == {(True, 0o700), (False, 0o600)}


def test_data_that_are_there_are_kept_beside_the_folder(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    fill(target, "old", 3)
    (target / "admin.token").write_text("the token")
    before = kept(target)
    archive = back_up(source)

    with pytest.raises(AlreadyExists, match="--replace"):
        put_back(archive, target)
    assert kept(target) == before
    done = put_back(archive, target, set_aside=True)

    assert kept(target)[0] == ["new"]
    assert (target / "admin.token").read_text() == "the token"
    assert done.set_aside == tmp_path / "target.replaced-20260131T120000Z"
    assert kept(done.set_aside) == before


@pytest.mark.skipif(sys.platform != "linux", reason="mounts a tmpfs")
def test_in_a_mount_the_old_data_are_kept_within_it(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "mount"
    target.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", str(target)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        pytest.skip("may not mount")
    try:
        fill(target, "old", 3)
        before = kept(target)

        done = put_back(back_up(source), target, set_aside=True)

        assert done.set_aside == target / "replaced-20260131T120000Z"
        assert kept(done.set_aside) == before
        assert kept(target)[0] == ["new"]
        assert not list(tmp_path.glob("mount.replaced-*"))
    finally:
        subprocess.run(["umount", str(target)], check=True)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives away")
def test_what_root_restores_is_the_folders_owners(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    os.chown(target, 4711, 4711)

    put_back(back_up(source), target)

    for name in ("hone.db", "files", "packs", "packs/1/1.pack"):
        assert (target / name).stat().st_uid == 4711


def test_a_folder_in_use_is_left_alone(source: Path, tmp_path: Path) -> None:
    archive = back_up(source)
    fill(tmp_path / "target", "old", 3)
    store = Store.open(tmp_path / "target")
    try:
        with pytest.raises(DataDirLocked, match="in use by process"):
            put_back(archive, tmp_path / "target", set_aside=True)
    finally:
        store.close()
    assert kept(tmp_path / "target")[0] == ["old"]


def rewritten(
    archive: bytes,
    change: Callable[[zipfile.ZipInfo, bytes], tuple[zipfile.ZipInfo, bytes] | None],
    *more: tuple[zipfile.ZipInfo, bytes],
) -> bytes:
    """The archive with every entry changed, left out, or added to."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(archive)) as old, zipfile.ZipFile(buffer, "w") as new:
        for info in old.infolist():
            if (made := change(info, old.read(info))) is not None:
                new.writestr(*made)
        for info, content in more:
            new.writestr(info, content)
    return buffer.getvalue()


def same(info: zipfile.ZipInfo, content: bytes) -> tuple[zipfile.ZipInfo, bytes]:
    return info, content


def with_manifest(archive: bytes, change: Callable[[dict[str, Any]], None]) -> bytes:
    def edit(info: zipfile.ZipInfo, content: bytes) -> tuple[zipfile.ZipInfo, bytes]:
        if info.filename == "manifest.json":
            manifest = json.loads(content)
            change(manifest)
            content = json.dumps(manifest).encode()
        return info, content

    return rewritten(archive, edit)


def with_content(archive: bytes, where: str, change: Callable[[bytes], bytes]) -> bytes:
    """Another content under a true hash: the manifest agrees with what is there."""

    def edit(info: zipfile.ZipInfo, content: bytes) -> tuple[zipfile.ZipInfo, bytes]:
        return info, change(content) if info.filename.startswith(where) else content

    changed = rewritten(archive, edit)
    with zipfile.ZipFile(io.BytesIO(changed)) as opened:
        contents = {name: opened.read(name) for name in opened.namelist()}

    def agree(manifest: dict[str, Any]) -> None:
        for entry in manifest["files"]:
            content = contents[entry["name"]]
            entry |= {"size_bytes": len(content), "sha256": sha256(content).hexdigest()}

    return with_manifest(changed, agree)


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


def flipped(content: bytes) -> bytes:
    return bytes([content[0] ^ 1]) + content[1:]


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
        manifest["files"] = [each for each in manifest["files"] if each["name"] != name]

    changed = with_manifest(archive, forget)
    return rewritten(changed, lambda info, data: None if info.filename == name else (info, data))


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
    "backslashes": (lambda data: listed(data, "packs\\1\\2.pack", b"x"), "has this name"),
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

    told = " ".join([raised.value.detail, *(each.detail for each in raised.value.problems)])
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

    assert "it is there twice" in [each.detail for each in raised.value.problems]


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
    assert not (tmp_path / "target" / "hone.db").exists()


def test_a_file_that_was_lost_before_the_backup_costs_only_what_needed_it(
    source: Path, tmp_path: Path
) -> None:
    store = Store.open(source)
    model = store.models.get("new")
    store.files.path(model.files["training_model"].sha256).unlink()
    store.close()

    done = put_back(back_up(source), tmp_path / "target")

    assert len(done.contents.missing) == done.lost.files == 1
    assert (done.models, done.samples) == (1, 20)


def test_a_file_whose_bytes_have_changed_is_told_and_left_out(source: Path, tmp_path: Path) -> None:
    store = Store.open(source)
    path = store.files.path(store.models.get("new").files["training_model"].sha256)
    store.close()
    path.write_bytes(flipped(path.read_bytes()))

    done = put_back(back_up(source), tmp_path / "target")

    assert done.contents.damaged == (f"files/{path.parent.name}/{path.name}",)
    assert done.lost.files == 1


CRASH = """
import os, sys
from datetime import datetime, timezone
from pathlib import Path
from service.backup_contents import open_backup, read_contents
from service.restore import restore

left = int(sys.argv[3])
rename = Path.replace

def crash_at_the_nth(self, target):
    global left
    left -= 1
    if left < 0:
        os._exit(9)
    return rename(self, target)

file = Path(sys.argv[1])
with open_backup(file) as archive:
    contents = read_contents(archive, archive_bytes=file.stat().st_size)
    Path.replace = crash_at_the_nth
    restore(
        archive, contents, Path(sys.argv[2]), set_aside=True,
        now=datetime.now(timezone.utc), advance=lambda _: None,
    )
"""


def test_a_restore_that_dies_at_any_rename_leaves_the_old_data_or_the_new(
    source: Path, tmp_path: Path
) -> None:
    archive = tmp_path / "backup.zip"
    archive.write_bytes(back_up(source))
    new = kept(source)
    seen = set()
    for renames in range(30):
        target = tmp_path / f"target-{renames}"
        fill(target, "old", 3)
        (target / "cache" / "1").mkdir()
        old = kept(target)
        arguments = [sys.executable, "-c", CRASH, str(archive), str(target), str(renames)]
        ended = subprocess.run(arguments, capture_output=True, check=False)

        after = kept(target)
        assert after in (old, new), f"neither after {renames} renames"
        assert not (target / "restoring").exists()
        if after == new:
            (aside,) = tmp_path.glob(f"target-{renames}.replaced-*")
            assert kept(aside) == old
        seen.add(after[0][0])
        if ended.returncode == 0:
            break
        assert ended.returncode == 9, ended.stderr
    assert seen == {"old", "new"}
    assert renames > 5
