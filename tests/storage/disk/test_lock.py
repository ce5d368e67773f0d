import os
import sys
from concurrent import futures

import pytest
from support import DEADLINE_S

from storage.disk.lock import held
from storage.errors import DataDirLocked
from storage.store import Store

HOLD = """
import os, sys
from pathlib import Path
from storage.store import Store
store = Store.open(Path(sys.argv[1]))
print(os.getpid(), flush=True)
sys.stdin.readline()
store.close()
print("closed", flush=True)
"""


def test_a_second_process_is_refused_until_the_first_lets_go(data_dir, start_child):
    child = start_child(HOLD, data_dir)
    owner = child.stdout.readline().strip()
    with pytest.raises(DataDirLocked, match=f"in use by process {owner}; stop"):
        Store.open(data_dir)
    child.stdin.write("\n")
    child.stdin.flush()
    assert child.stdout.readline() == "closed\n"
    Store.open(data_dir).close()


def test_the_lock_ends_with_a_process_that_is_killed(data_dir, start_child):
    child = start_child(HOLD, data_dir)
    owner = child.stdout.readline().strip()
    child.kill()
    child.wait()
    assert (data_dir / "hone.lock").read_text().strip() == owner
    Store.open(data_dir).close()
    assert (data_dir / "hone.lock").read_text().strip() == ""


LONGER_THAN_MSVCRT_S = 11.0
"""Its wait for a lock ends after ten seconds."""
HOLD_LOCK = """
import sys
from pathlib import Path
from storage.disk.lock import held
with held(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.readline()
"""


def test_a_lock_is_waited_for_until_its_holder_lets_go(tmp_path, start_child):
    child = start_child(HOLD_LOCK, tmp_path / "lock")
    assert child.stdout.readline() == "held\n"
    with futures.ThreadPoolExecutor() as pool:
        waiting = pool.submit(hold, tmp_path / "lock")
        with pytest.raises(futures.TimeoutError):
            waiting.result(LONGER_THAN_MSVCRT_S if sys.platform == "win32" else 0.1)
        child.stdin.write("\n")
        child.stdin.flush()
        waiting.result(DEADLINE_S)


def hold(path):
    with held(path):
        pass


@pytest.mark.skipif(os.name == "nt", reason="Windows has no mode bits")
def test_only_the_owner_may_enter_the_data_folder(store):
    for folder in (store.data_dir, store.tmp_dir, store.packs_dir):
        assert folder.stat().st_mode & 0o777 == 0o700
