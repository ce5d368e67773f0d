"""What is restored is what was backed up; one that is cut short is finished or undone."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from backups import NOW, back_up, cut_short, fill, flipped, kept, put_back, with_content
from small_disks import in_memory
from stored import SCHEMAS, make_older

from service.backup.backup import write_backup
from storage.backup.reconciling import Lost
from storage.blobs import compaction
from storage.errors import AlreadyExists, Busy, DataDirLocked, StorageBroken
from storage.records.access import NewToken
from storage.samples.filter import SampleFilter
from storage.store import Store


@pytest.fixture
def source(tmp_path: Path) -> Path:
    fill(tmp_path / "source", "new", 20)
    return tmp_path / "source"


def test_what_is_restored_is_what_was_backed_up(source: Path, tmp_path: Path) -> None:
    done = put_back(back_up(source), tmp_path / "target")

    assert kept(tmp_path / "target") == kept(source)
    assert (done.models, done.samples, done.set_aside, done.lost) == (1, 20, None, Lost())


def test_a_backup_that_is_sent_keeps_samples_whose_move_to_another_pack_failed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.open(source)
    snapshot = store.snapshot()

    def busy(*_: object, **__: object) -> None:
        raise Busy("the write queue is full")

    with monkeypatch.context() as patched:
        patched.setattr(compaction._Renewal, "_end", busy)
        store.samples.delete_where(1, SampleFilter(up_to=12))
    store.eraser.erase_at_rest(1)
    archive = b"".join(write_backup(snapshot, now=NOW))
    snapshot.close()
    assert store.eraser.pending_models() == [1]
    store.eraser.erase_at_rest(1)
    assert store.eraser.pending_models() == []
    store.close()

    put_back(archive, tmp_path / "target")
    assert kept(tmp_path / "target") == kept(source)


@pytest.mark.parametrize("schema", [*SCHEMAS.glob("*.sql")], ids=lambda path: path.stem)
def test_a_backup_of_an_older_schema_is_restored(
    schema: Path, source: Path, tmp_path: Path
) -> None:
    database = tmp_path / "hone.db"

    def older(content: bytes) -> bytes:
        database.write_bytes(content)
        make_older(database, schema)
        return database.read_bytes()

    done = put_back(with_content(back_up(source), "hone.db", older), tmp_path / "target")

    assert kept(tmp_path / "target") == kept(source)
    assert (done.models, done.samples, done.lost) == (1, 20, Lost())


@pytest.mark.skipif(os.name == "nt", reason="Windows has no mode bits")
def test_only_the_owner_may_read_what_is_restored(source: Path, tmp_path: Path) -> None:
    put_back(back_up(source), tmp_path / "target")

    modes = {
        (path.is_dir(), stat.S_IMODE(path.stat().st_mode))
        for path in (tmp_path / "target", *(tmp_path / "target").rglob("*"))
    }
    assert modes == {(True, 0o700), (False, 0o600)}


def test_the_tokens_of_a_backup_are_counted_if_they_may_be_used(
    source: Path, tmp_path: Path
) -> None:
    store = Store.open(source)
    for name in ("valid", "revoked"):
        token = store.tokens.add(NewToken(name, name.encode().ljust(32), ("predict",)))
    store.tokens.revoke(token.id)
    store.tokens.add(NewToken("past", b"past".ljust(32), ("predict",), expires_at=NOW))
    store.close()
    assert put_back(back_up(source), tmp_path / "target").tokens == 1


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


def test_a_journal_of_the_old_database_is_moved_away_with_it(source: Path, tmp_path: Path) -> None:
    target = tmp_path / "target"
    fill(target, "old", 3)
    before = kept(target)
    cut_short(target / "hone.db")

    done = put_back(back_up(source), target, set_aside=True)

    assert kept(target) == kept(source)
    assert done.set_aside is not None
    assert kept(done.set_aside) == before


def test_in_a_mount_the_old_data_are_kept_within_it(source: Path, tmp_path: Path) -> None:
    with in_memory(tmp_path / "mount", size_mib=64) as target:
        fill(target, "old", 3)
        before = kept(target)

        done = put_back(back_up(source), target, set_aside=True)

        assert done.set_aside == target / "replaced-20260131T120000Z"
        assert kept(done.set_aside) == before
        assert kept(target)[0] == ["new"]
        assert not list(tmp_path.glob("mount.replaced-*"))


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


def test_a_folder_that_cannot_be_locked_is_told(source: Path, tmp_path: Path) -> None:
    fill(tmp_path / "target", "old", 3)
    lock = tmp_path / "target" / "hone.lock"
    lock.unlink()
    lock.mkdir()
    with pytest.raises(StorageBroken, match=r"cannot open the data folder .*hone\.lock"):
        put_back(back_up(source), tmp_path / "target", set_aside=True)


def test_a_folder_of_other_things_is_left_alone(source: Path, tmp_path: Path) -> None:
    (tmp_path / "home" / "letters").mkdir(parents=True)
    with pytest.raises(AlreadyExists, match="holds the folder 'letters'"):
        put_back(back_up(source), tmp_path / "home")
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["letters"]


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
from service.backup.contents import open_backup, read_contents
from service.backup.restore import restore

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
        (target / "replaced-20251231T120000Z").mkdir()
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
