import stat
import sys

import pytest
from support import blobs, mlp

from storage.disk.permissions import open_to_others
from storage.errors import AlreadyExists, StorageBroken
from storage.store import Store

if sys.platform == "win32":
    pytest.skip("modes say nothing on Windows", allow_module_level=True)


def mode_of(path):
    return stat.S_IMODE(path.lstat().st_mode)


def test_a_data_folder_that_is_open_to_others_is_closed_and_told(
    data_dir, add_model, upload, caplog
):
    store = Store.open(data_dir)
    upload(store, add_model(store), [1, 2])
    store.close()
    outside = data_dir.with_name("outside")
    outside.write_text("of somebody else")
    outside.chmod(0o644)
    (data_dir / "link").symlink_to(outside)
    paths = [data_dir, data_dir / "hone.db", data_dir / "packs", data_dir / "packs" / "1"]
    for path in paths:
        path.chmod(0o755)
    caplog.clear()

    Store.open(data_dir).close()

    assert [mode_of(path) & 0o077 for path in paths] == [0, 0, 0, 0]
    assert mode_of(data_dir / "hone.db") == 0o700
    assert mode_of(outside) == 0o644
    assert list(open_to_others(data_dir)) == []
    (told,) = [record for record in caplog.records if record.getMessage() == "permissions.repaired"]
    assert told.fields["paths"] >= len(paths)


def test_nothing_that_a_daemon_makes_is_open_to_others(tmp_path, serve):
    data_dir = tmp_path / "data"
    data_dir.mkdir()
    data_dir.chmod(0o755)
    served = serve(data_dir)
    served.register("m", mlp(8, 8, 2))
    served.upload("m", **blobs(30, 8, 2))
    served.train("m", epochs=1)
    assert list(open_to_others(data_dir)) == []
    assert "permissions.repaired" in served.log.read_text()


def test_a_folder_of_other_things_is_refused_and_left_as_it_is(tmp_path):
    letters = tmp_path / "letters"
    letters.mkdir(mode=0o755)
    with pytest.raises(AlreadyExists, match="holds the folder 'letters' and no data of Hone"):
        Store.open(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]
    assert mode_of(letters) == 0o755


def test_a_data_folder_that_is_a_file_is_said_to_be_one(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageBroken, match=r"data folder .*: Not a directory: .*file"):
        Store.open(tmp_path / "file")


def test_what_a_daemon_leaves_that_ended_at_its_first_start_is_taken(tmp_path):
    for name in ("ballast", "hone.lock", "admin.token", "daemon.log"):
        (tmp_path / name).touch()
    for name in ("lost+found", "files"):
        (tmp_path / name).mkdir()
    Store.open(tmp_path).close()
    assert (tmp_path / "hone.db").exists()
