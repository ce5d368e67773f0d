import sqlite3
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import DEADLINE_S, wait_until

from storage.errors import AlreadyExists, Busy, StorageBroken, StorageFull
from storage.store import Store


def test_concurrent_writers_all_get_their_rows_in(store):
    with ThreadPoolExecutor(16) as pool:
        events = list(pool.map(lambda n: store.events.append("t", None, {"n": n}), range(200)))
    assert sorted(event.id for event in events) == list(range(1, 201))
    stored = {event.id: event.data for event in store.events.since(0, 1000)}
    assert stored == {event.id: event.data for event in events}


def test_a_write_that_raises_stores_nothing(store):
    def write(transaction):
        transaction.event("t", None, {})
        raise LookupError("its own error")

    with pytest.raises(LookupError, match="its own error"):
        store._writer.write(write)
    assert store.events.since(0, 10) == []
    assert store.events.append("t", None, {}).id == 1


def test_a_full_queue_is_busy_and_then_works_again(data_dir):
    store = Store.open(data_dir, write_queue_size=1)
    store._writer._put_timeout_s = 0.05
    started, release = threading.Event(), threading.Event()

    def occupy(transaction):
        started.set()
        assert release.wait(DEADLINE_S)

    with ThreadPoolExecutor(2) as pool:
        running = pool.submit(store._writer.write, occupy)
        assert started.wait(DEADLINE_S)
        waiting = pool.submit(store.events.append, "waiting", None, {})
        wait_until(store._writer._tasks.full, "the queue to be full")
        with pytest.raises(Busy, match="try again"):
            store.events.append("refused", None, {})
        release.set()
        running.result(DEADLINE_S)
        waiting.result(DEADLINE_S)
    assert [event.type for event in store.events.since(0, 10)] == ["waiting"]
    store.close()


def test_what_is_queued_is_written_before_the_store_closes(data_dir):
    store = Store.open(data_dir)
    started, release = threading.Event(), threading.Event()

    def occupy(transaction):
        started.set()
        assert release.wait(DEADLINE_S)

    with ThreadPoolExecutor(3) as pool:
        pool.submit(store._writer.write, occupy)
        assert started.wait(DEADLINE_S)
        queued = pool.submit(store.events.append, "queued", None, {})
        wait_until(lambda: store._writer._tasks.qsize() == 1, "the write to wait")
        closing = pool.submit(store.close)
        release.set()
        queued.result(DEADLINE_S)
        closing.result(DEADLINE_S)
    with pytest.raises(Busy, match="stopping"):
        store.events.append("late", None, {})
    with pytest.raises(Busy, match="stopping"):
        store.events.since(0, 1)


def test_a_full_disk_refuses_the_write_and_the_store_lives_on(store):
    pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
    store._connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    with pytest.raises(StorageFull, match="free some space"):
        store.events.append("big", None, {"text": "x" * 100_000})
    store._connection.execute("PRAGMA max_page_count = 1000000")
    store.events.append("small", None, {})
    assert [event.type for event in store.events.since(0, 10)] == ["small"]


def test_after_a_fatal_error_every_write_is_refused(data_dir):
    store = Store.open(data_dir)

    def corrupt(transaction):
        with open(store.database, "r+b") as file:  # noqa: PTH123
            file.write(b"\0" * 8192)
        for suffix in ("-wal",):
            with open(f"{store.database}{suffix}", "r+b") as file:  # noqa: PTH123
                file.truncate(0)
        transaction.execute("PRAGMA cache_size = 0")
        transaction.execute("PRAGMA shrink_memory")
        transaction.execute("SELECT * FROM models").fetchall()

    with pytest.raises(StorageBroken, match="restart the daemon"):
        store._writer.write(corrupt)
    assert store.broken is not None
    with pytest.raises(StorageBroken, match="restart the daemon"):
        store.events.append("t", None, {})
    store.close()


def test_a_violated_constraint_is_named(store):
    def twice(transaction):
        for _ in range(2):
            transaction.execute("INSERT INTO files VALUES (?, 1)", ("0" * 64,))

    with pytest.raises(AlreadyExists, match=r"files\.sha256"):
        store._writer.write(twice)


def test_a_bad_statement_does_not_stop_the_writer(store):
    with pytest.raises(StorageBroken, match="no such table"):
        store._writer.write(lambda transaction: transaction.execute("SELECT * FROM nowhere"))
    assert store.broken is None
    store.events.append("t", None, {})


def test_readers_cannot_write(store):
    with pytest.raises(StorageBroken, match="readonly"), store._readers.snapshot() as connection:
        connection.execute("DELETE FROM events")


def test_a_snapshot_does_not_see_a_later_write(store):
    with store._readers.snapshot() as connection:
        before = connection.execute("SELECT count(*) FROM events").fetchone()[0]
        store.events.append("t", None, {})
        after = connection.execute("SELECT count(*) FROM events").fetchone()[0]
    assert before == after == 0


def test_a_subscriber_that_writes_is_told_not_to(store, caplog):
    store.events.subscribe(lambda _: store.events.append("again", None, {}))
    store.events.append("once", None, {})
    store.events.since(0, 1)
    assert "must not write" in caplog.text


def test_one_sqlite_library_serves_the_whole_process():
    from storage.database import connection

    assert connection.sqlite3.sqlite_version == sqlite3.sqlite_version
