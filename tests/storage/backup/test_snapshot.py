"""A snapshot stays as it was, whatever is stored, deleted and moved while it is read."""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from small_disks import in_memory

from storage.backup.snapshot import Snapshot
from storage.samples.filter import SampleFilter
from storage.store import Store


def contents(snapshot: Snapshot) -> dict[str, bytes]:
    """Read it as a backup does: the database last."""
    read = {}
    for part in snapshot.parts:
        with part.open() as file:
            read[part.name] = file.read(part.size_bytes)
    with snapshot.database() as file:
        read["hone.db"] = file.read()
    return read


def samples(read: dict[str, bytes], folder: Path) -> dict[int, bytes]:
    """The samples that its database names, each proved by its hash."""
    path = folder / "read.db"
    path.write_bytes(read["hone.db"])
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute("SELECT id, model_id, pack, offset, length, sha256 FROM samples")
        found = {}
        for number, model_id, pack, offset, length, digest in rows:
            content = read[f"packs/{model_id}/{pack}.pack"][offset : offset + length]
            assert hashlib.sha256(content).digest() == digest, number
            found[number] = content
        for (sha256,) in connection.execute("SELECT sha256 FROM files"):
            assert hashlib.sha256(read[f"files/{sha256[:2]}/{sha256}"]).hexdigest() == sha256
    return found


def test_what_is_stored_later_is_not_in_it(store, add_model, upload, tmp_path):
    model = add_model(store)
    upload(store, model, [1, 2, 3])
    snapshot = store.snapshot()
    upload(store, model, [4, 5], first=3)
    add_model(store, "another")

    read = contents(snapshot)
    snapshot.close()

    assert sorted(samples(read, tmp_path)) == [1, 2, 3]
    assert len([name for name in read if name.startswith("files/")]) == 2


def test_a_sample_deleted_before_its_bytes_are_read_is_not_in_it(
    store, add_model, upload, tmp_path
):
    model = add_model(store)
    upload(store, model, [1, 2, 3], key=["a", "secret-key", "c"])
    snapshot = store.snapshot()
    store.samples.delete(model.id, 2)

    read = contents(snapshot)
    snapshot.close()

    assert sorted(samples(read, tmp_path)) == [1, 3]
    assert not any(b"secret-key" in content for content in read.values())
    assert b"secret-key" not in b"".join(p.read_bytes() for p in files_below(store.data_dir))


def test_packs_that_are_written_anew_are_still_in_it(store, add_model, upload, tmp_path):
    model = add_model(store)
    upload(store, model, [1] * 10)
    (before,) = (store.packs_dir / str(model.id)).iterdir()
    snapshot = store.snapshot()
    store.samples.delete_where(model.id, SampleFilter(up_to=8))
    assert not before.exists()

    read = contents(snapshot)
    snapshot.close()

    assert sorted(samples(read, tmp_path)) == [9, 10]


def test_a_deleted_model_is_still_in_it_whole(store, add_model, upload, tmp_path):
    model = add_model(store)
    upload(store, model, [1, 2, 3])
    snapshot = store.snapshot()
    store.models.delete("digits")
    assert not list(store.packs_dir.iterdir())

    read = contents(snapshot)
    snapshot.close()

    assert sorted(samples(read, tmp_path)) == [1, 2, 3]


def test_closing_it_gives_the_room_back(store, add_model, upload):
    upload(store, add_model(store), [1, 2, 3])
    read_through = store.snapshot()
    contents(read_through)
    given_up = store.snapshot()

    read_through.close()
    given_up.close()

    assert list(store.tmp_dir.iterdir()) == []
    store.samples.delete(1, 1)


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


@pytest.fixture
def elsewhere(store: Store) -> Iterator[Path]:
    """The folder of temporary files on a filesystem of its own: no hard link reaches it."""
    with in_memory(store.tmp_dir, size_mib=8) as folder:
        yield folder


def test_where_there_are_no_hard_links_open_files_hold_on(
    store, add_model, upload, tmp_path, request
):
    model = add_model(store)
    upload(store, model, [1] * 10)
    request.getfixturevalue("elsewhere")
    snapshot = store.snapshot()
    assert not any(isinstance(part.source, Path) for part in snapshot.parts)
    store.samples.delete_where(model.id, SampleFilter(up_to=8))

    read = contents(snapshot)
    snapshot.close()

    assert sorted(samples(read, tmp_path)) == [9, 10]
