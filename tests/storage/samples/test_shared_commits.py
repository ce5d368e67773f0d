"""Small uploads that wait share a flush of the pack and a COMMIT, and each fails alone."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from disk_faults import failing_sync
from msgspec.structs import replace
from stored import occupy_writer
from support import DEADLINE_S, HELPERS, wait_until

from storage.errors import StateConflict
from storage.store import Store

RECORD_BYTES = 16
TOGETHER = 12
SEND = """
import os, sys, threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from stored import occupy_writer
from support import DEADLINE_S, wait_until
from storage.errors import StorageBroken
from storage.store import Store

store = Store.open(Path(sys.argv[1]))
model, trigger, log = store.models.get("digits"), Path(sys.argv[2]), Path(sys.argv[3])

def upload(number):
    try:
        with store.samples.stage(model.id, 16, keep_duplicates=False) as staging:
            staging.add(bytes([number]) * 16, [1], key=[str(number)])
            staging.commit()
    except StorageBroken:
        return "refused"
    return "stored"

print(upload(1), flush=True)
going_on = threading.Event()
with ThreadPoolExecutor(13) as pool:
    occupy_writer(pool, store, going_on, DEADLINE_S)
    sent = [pool.submit(upload, number) for number in range(2, 14)]
    wait_until(lambda: store._writer._tasks.qsize() == 12, "the uploads to wait")
    log.unlink()
    if sys.argv[4] == "faulty":
        trigger.touch()
    going_on.set()
    print(*sorted({each.result() for each in sent}), flush=True)
    print(upload(14), flush=True)
os._exit(9)
"""


@pytest.fixture
def send(data_dir, tmp_path, add_model):
    """What uploads came to that waited for one COMMIT, and which files were flushed since."""

    def send(suffix, *, faulty, kills=False):
        store = Store.open(data_dir)
        add_model(store)
        store.close()
        faults, trigger = failing_sync(tmp_path / "fault", suffix=suffix, kills=kills)
        arguments = (data_dir, trigger, faults["FAULT_LOG"], "faulty" if faulty else "sound")
        done = subprocess.run(  # noqa: PLW1510 - it ends as if it was killed
            [sys.executable, "-c", SEND, *arguments],
            env=os.environ | faults | {"PYTHONPATH": str(HELPERS)},
            capture_output=True,
            text=True,
            timeout=DEADLINE_S,
        )
        assert done.returncode == 9, done.stderr
        flushed = (tmp_path / "fault" / "log").read_text().splitlines()
        return done.stdout.split(), flushed

    return send


def kept(data_dir):
    """The numbers of the samples that are there, each with its bytes."""
    store = Store.open(data_dir)
    try:
        model = store.models.get("digits")
        rows = store.samples.list(model.id, limit=100)
        for row in rows:
            assert store.samples.content(model.id, row.id) == bytes([int(row.key)]) * RECORD_BYTES
        packs = [path.stat().st_size for path in store.packs_dir.glob("*/*")]
        assert packs == [RECORD_BYTES * len(rows)]
        return {int(row.key) for row in rows}
    finally:
        store.close()


def test_uploads_that_wait_share_two_flushes(send, data_dir):
    told, flushed = send(".pack", faulty=False)
    assert told == ["stored", "stored", "stored"]
    assert len(flushed) <= 2 * 2  # theirs, and those of the last one
    assert kept(data_dir) == set(range(1, 15))


def test_a_pack_that_cannot_be_flushed_is_told_to_all_and_the_next_is_stored(send, data_dir):
    told, _ = send(".pack", faulty=True)
    assert told == ["stored", "refused", "stored"]
    assert kept(data_dir) == {1, 14}


def test_a_commit_in_doubt_is_told_to_all_and_keeps_all_or_none(send, data_dir):
    told, _ = send("hone.db-wal", faulty=True)
    assert told == ["stored", "refused", "refused"]
    assert kept(data_dir) in ({1}, set(range(1, 14)))


def test_a_kill_between_flush_and_commit_keeps_what_was_told(send, data_dir):
    told, flushed = send(".pack", faulty=True, kills=True)
    assert told == ["stored"]
    assert [path.endswith(".pack") for path in flushed] == [True]
    assert kept(data_dir) == {1}


def test_an_upload_that_fails_takes_none_with_it_and_leaves_no_byte(store, add_model, record_of):
    model = add_model(store)
    target = model.signature.target
    other = replace(target, class_ids=tuple(each + 100 for each in target.ids))
    going_on = threading.Event()

    def upload(number, target):
        with store.samples.stage(model.id, RECORD_BYTES, target=target) as staging:
            staging.add(record_of(number), [1])
            return staging.commit()

    with ThreadPoolExecutor(5) as pool:
        occupy_writer(pool, store, going_on, DEADLINE_S)
        sent = []
        for number, checked in enumerate((target, other, target, other)):
            sent.append(pool.submit(upload, number, checked))
            wait_until(lambda: store._writer._tasks.qsize() == len(sent), "it to wait")
        going_on.set()
        assert [type(each.exception()) for each in sent] == [
            type(None),
            StateConflict,
            type(None),
            StateConflict,
        ]
    samples = store.samples.list(model.id, limit=10)
    contents = [store.samples.content(model.id, sample.id) for sample in samples]
    assert contents == [record_of(0), record_of(2)]
    (pack,) = store.packs_dir.glob("*/*")
    assert pack.read_bytes() == record_of(0) + record_of(2)


def test_equal_inputs_of_uploads_that_share_a_commit_are_one_sample(store, add_model, record_of):
    model, going_on = add_model(store), threading.Event()

    def upload(_):
        with store.samples.stage(model.id, RECORD_BYTES, keep_duplicates=False) as staging:
            staging.add(record_of(0), [1])
            return staging.commit()

    with ThreadPoolExecutor(TOGETHER + 1) as pool:
        occupy_writer(pool, store, going_on, DEADLINE_S)
        sent = [pool.submit(upload, number) for number in range(TOGETHER)]
        wait_until(lambda: store._writer._tasks.qsize() == TOGETHER, "all to wait")
        going_on.set()
        assert sum(each.result().accepted for each in sent) == 1
    assert store.sample_stats.counts(model.id).train == 1
