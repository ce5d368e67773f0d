"""A disk that is really full: uploads are refused, deletions go through, and the store goes on."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from small_disks import FILLER, fill, in_memory

from storage.database.codec import utc_now
from storage.disk import ballast
from storage.errors import StorageFull
from storage.samples.filter import SampleFilter
from storage.store import Store

RECORD = 1024


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 40 MiB."""
    with in_memory(tmp_path / "disk", size_mib=40) as folder:
        yield folder


def upload(store: Store, count: int) -> None:
    model = store.models.get("digits")
    with store.samples.stage(model.id, RECORD) as staging:
        staging.add(os.urandom(RECORD * count), [1] * count)
        staging.commit()


def upload_without_end(store: Store) -> None:
    while True:
        upload(store, 1000)


@pytest.fixture
def full(disk: Path, add_model) -> Iterator[Store]:
    """A store with 2000 samples on a disk without room, its log as long as it gets."""
    store = Store.open(disk / "data")
    add_model(store)
    upload(store, 2000)
    store.eraser._writer.truncate_wal()
    fill(disk)
    yield store
    store.close()


def test_room_is_really_held_back(disk: Path) -> None:
    store = Store.open(disk / "data")
    path = disk / "data" / "ballast"
    assert path.stat().st_blocks * 512 >= ballast.SIZE_BYTES == path.stat().st_size
    store.close()
    assert path.exists()


def test_a_full_disk_refuses_uploads_and_takes_deletions(
    full: Store, disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(StorageFull, match="No space left"):
        upload(full, 2000)
    assert (disk / "data" / "ballast").exists()

    full.samples.delete(1, 1)
    gone = full.samples.delete_where(1, SampleFilter(up_to=1500))

    assert len(gone) == 1499
    assert "ballast.dropped" in caplog.text
    assert (disk / "data" / "ballast").stat().st_size > 0
    assert full.broken is None
    assert list(full.tmp_dir.iterdir()) == []
    assert full.eraser.pending_models() == []


def test_an_upload_does_not_use_the_ballast(full: Store, disk: Path) -> None:
    (disk / FILLER).write_bytes(b"")
    room = 3 << 20
    with (disk / FILLER).open("ab") as file:
        file.write(bytes(os.statvfs(disk).f_bavail * os.statvfs(disk).f_frsize - room))
    with pytest.raises(StorageFull):
        upload_without_end(full)
    assert (disk / "data" / "ballast").exists()
    before = len(full.samples.list(1, limit=10_000))
    full.samples.delete(1, 2)
    assert len(full.samples.list(1, limit=10_000)) == before - 1


def test_once_there_is_room_all_goes_on_and_the_ballast_is_back(full: Store, disk: Path) -> None:
    full.samples.delete(1, 1)
    (disk / FILLER).unlink()

    upload(full, 2000)

    assert len(full.samples.list(1, limit=10_000)) == 3999
    assert (disk / "data" / "ballast").stat().st_size == ballast.SIZE_BYTES


def test_deleting_everything_gives_the_disk_its_room_back(full: Store, disk: Path) -> None:
    full.samples.delete_where(1, SampleFilter())

    assert not list(full.packs_dir.glob("*/*"))
    upload(full, 100)
    assert len(full.samples.list(1, limit=10_000)) == 100


def test_a_store_on_a_full_disk_opens_and_deletes(disk: Path, add_model) -> None:
    store = Store.open(disk / "data")
    add_model(store)
    upload(store, 100)
    store.close()
    fill(disk)

    store = Store.open(disk / "data")
    store.samples.delete(1, 1)
    store.close()

    (disk / FILLER).unlink()
    store = Store.open(disk / "data")
    assert len(store.samples.list(1, limit=1000)) == 99
    assert (disk / "data" / "ballast").exists()
    store.close()


def test_deletions_go_on_however_often_others_fill_the_disk(full: Store, disk: Path) -> None:
    for number in range(1, 31):
        full.samples.delete(1, number)
        fill(disk)
    assert len(full.samples.list(1, limit=10_000)) == 1970


def test_a_store_without_ballast_opens_where_its_own_backup_makes_room(
    disk: Path, add_model
) -> None:
    store = Store.open(disk / "data")
    add_model(store)
    upload(store, 100)
    assert store.backups.make(utc_now()) is not None
    store.close()
    (disk / "data" / "ballast").unlink()
    fill(disk)

    store = Store.open(disk / "data")

    store.samples.delete(1, 1)
    assert len(store.samples.list(1, limit=1000)) == 99
    store.close()
