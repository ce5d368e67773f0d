import sqlite3

import pytest

from storage.errors import StorageBroken, UnknownSchema
from storage.store import Store


def test_what_no_row_names_is_swept_at_start(data_dir, add_model, upload, adopt):
    store = Store.open(data_dir)
    model = add_model(store)
    upload(store, model, [1, 2])
    orphan = store.files.path(adopt(store, b"never named").sha256)
    pack = store.packs_dir / str(model.id) / "1.pack"
    store.close()
    with pack.open("ab") as file:
        file.write(b"tail of an upload that was never committed")
    stray = store.packs_dir / "99" / "1.pack"
    stray.parent.mkdir()
    stray.write_bytes(b"x")
    (store.tmp_dir / "spool-x").write_bytes(b"x")

    Store.open(data_dir).close()

    assert pack.stat().st_size == 32
    assert not orphan.exists()
    assert not stray.parent.exists()
    assert list(store.tmp_dir.iterdir()) == []


def test_a_deletion_cut_short_is_finished_at_start(data_dir, add_model, upload, record_of):
    store = Store.open(data_dir)
    model = add_model(store)
    upload(store, model, [1, 2, 3])
    store.close()
    connection = sqlite3.connect(store.database)
    with connection:
        connection.execute("DELETE FROM samples WHERE id = 2")
        connection.execute(
            "INSERT INTO erasures (model_id, pack, offset, length) VALUES (?, 1, 16, 16)",
            (model.id,),
        )
    connection.close()

    store = Store.open(data_dir)
    pack = (store.packs_dir / str(model.id) / "1.pack").read_bytes()
    store.close()
    assert pack == record_of(0) + bytes(16) + record_of(2)


def test_a_damaged_database_stops_the_start_after_an_unclean_end(data_dir, add_model, upload):
    store = Store.open(data_dir)
    upload(store, add_model(store), [1] * 2000)
    store.close()
    content = bytearray(store.database.read_bytes())
    for page in range(30, len(content) // 4096 - 1):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    store.database.write_bytes(content)
    (data_dir / "hone.lock").write_text("12345")
    with pytest.raises(StorageBroken, match=r"damaged|malformed"):
        Store.open(data_dir)


def test_a_file_that_is_no_database_stops_the_start(data_dir):
    data_dir.mkdir()
    (data_dir / "hone.db").write_bytes(b"not a database at all" * 100)
    with pytest.raises(StorageBroken, match="file is not a database"):
        Store.open(data_dir)


@pytest.mark.parametrize("name", ["hone.lock", "ballast"])
def test_a_folder_in_the_place_of_a_file_stops_the_start_by_its_name(data_dir, name):
    Store.open(data_dir).close()
    (data_dir / name).unlink()
    (data_dir / name).mkdir()
    with pytest.raises(StorageBroken, match=f"directory: .*{name}; check"):
        Store.open(data_dir)


def test_a_newer_schema_is_refused(data_dir):
    store = Store.open(data_dir)
    store.close()
    connection = sqlite3.connect(store.database)
    with connection:
        connection.execute(
            "INSERT INTO _sqlite_migrations (migration_set, name, applied_at) "
            "VALUES ('hone', 'm999_future', 'then')"
        )
    connection.close()
    with pytest.raises(UnknownSchema, match="m999_future"):
        Store.open(data_dir)


def test_a_clean_close_leaves_no_wal(data_dir, add_model):
    store = Store.open(data_dir)
    add_model(store)
    store.close()
    assert not (data_dir / "hone.db-wal").exists()
    store = Store.open(data_dir)
    assert [model.name for model in store.models.list(10)] == ["digits"]
    store.close()
