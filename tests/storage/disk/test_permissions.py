import os
import stat
import sys

import pytest
from support import blobs, mlp

from storage.disk.permissions import open_to_others
from storage.store import Store

if sys.platform == "win32":
    pytest.skip("modes say nothing on Windows", allow_module_level=True)


def mode_of(path):
    return stat.S_IMODE(path.lstat().st_mode)


@pytest.fixture
def usual_umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


@pytest.mark.usefixtures("usual_umask")
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
    (told,) = [each for each in caplog.records if each.getMessage() == "permissions.repaired"]
    assert told.fields["paths"] >= len(paths)


@pytest.mark.usefixtures("usual_umask")
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
