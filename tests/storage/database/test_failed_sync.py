"""The log cannot be flushed at a COMMIT: whether that commit is kept shows at the next start."""

import os
import subprocess
import sys

import pytest
from disk_faults import failing_sync
from support import DEADLINE_S

from storage.store import Store

UPLOADS = """
import os, sys
from pathlib import Path
from storage.errors import StorageBroken
from storage.store import Store

reasons = []
store = Store.open(Path(sys.argv[1]), on_broken=reasons.append)
model = store.models.get("digits")

def upload(number, count):
    with store.samples.stage(model.id, 16) as staging:
        keys = [f"{number}-{i}" for i in range(count)]
        staging.add(bytes([number]) * 16 * count, [number] * count, key=keys)
        staging.commit()

upload(1, 5)
begun = store.samples.stage(model.id, 16)
begun.add(bytes([4]) * 16 * 2, [4, 4], key=["4-0", "4-1"])
Path(sys.argv[2]).touch()
for number, count in ((2, 4), (3, 9)):
    try:
        upload(number, count)
    except StorageBroken as error:
        print(number, "refused:", error)
    else:
        print(number, "stored")
for number, try_again in ((4, begun.commit), (5, lambda: store.samples.stage(model.id, 16))):
    try:
        try_again()
    except StorageBroken as error:
        print(number, "refused:", error)
print(len(reasons), "told", flush=True)
os._exit(9)  # as SIGKILL would: nothing is closed
"""


@pytest.fixture
def uploads(data_dir, tmp_path, add_model):
    """What each upload came to, in a process whose log fails to flush at the second one."""
    store = Store.open(data_dir)
    add_model(store)
    store.close()
    faults, trigger = failing_sync(tmp_path / "fault", suffix="hone.db-wal")
    done = subprocess.run(  # noqa: PLW1510 - the code is looked at below
        [sys.executable, "-c", UPLOADS, data_dir, trigger],
        env=os.environ | faults,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert done.returncode == 9, done.stderr
    return done.stdout.splitlines()


def test_bytes_of_a_commit_in_doubt_are_never_overwritten(uploads, data_dir):
    store = Store.open(data_dir)
    model = store.models.get("digits")
    samples = store.samples.list(model.id, limit=100)
    assert {sample.key.split("-")[0] for sample in samples} in ({"1"}, {"1", "2"})
    for sample in samples:
        number = int(sample.key.split("-")[0])
        assert store.samples.content(model.id, sample.id) == bytes([number]) * 16
    store.close()


def test_after_a_failed_commit_nothing_is_staged_or_stored(uploads):
    assert [line.split(":")[0] for line in uploads] == [
        "2 refused",
        "3 refused",
        "4 refused",
        "5 refused",
        "1 told",
    ]
    assert all("restart the daemon" in line for line in uploads[:4])
