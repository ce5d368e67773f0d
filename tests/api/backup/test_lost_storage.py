"""A data folder or database that is removed or replaced under the running daemon.

What is written to a removed file succeeds, and is gone when the daemon ends.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from support import DEADLINE_S, Served, blobs, client, mlp, wait_until


def remove_database(data_dir: Path) -> None:
    (data_dir / "hone.db").unlink()


def replace_database(data_dir: Path) -> None:
    shutil.copy(data_dir / "hone.db", data_dir / "copy.db")
    (data_dir / "copy.db").replace(data_dir / "hone.db")


def remove_log(data_dir: Path) -> None:
    (data_dir / "hone.db-wal").unlink()


def move_folder(data_dir: Path) -> None:
    data_dir.rename(data_dir.with_name("moved"))


def replace_folder(data_dir: Path) -> None:
    shutil.copytree(data_dir, data_dir.with_name("copy"), ignore=shutil.ignore_patterns("*.sock"))
    move_folder(data_dir)
    data_dir.with_name("copy").rename(data_dir)


LOSSES = (remove_database, replace_database, remove_log, move_folder, replace_folder)


@pytest.mark.parametrize("lose", LOSSES)
def test_no_upload_is_acknowledged_once_the_storage_is_gone(
    serve: Callable[..., Served], lose: Callable[[Path], None]
) -> None:
    served = serve()
    served.register("m", mlp(8, 8, 2))
    served.upload("m", **blobs(20, 8, 2))
    lose(served.data_dir)

    refused = served.offer("m", **blobs(20, 8, 2, seed=1))

    assert refused.status_code in (500, 503)
    assert refused.json()["code"] in ("storage_broken", "not_ready")
    assert served.process.wait(DEADLINE_S) == 3
    served.stop()
    log = served.log.read_text()
    assert "while the daemon ran" in log
    assert "`honed restore` a backup, and start the daemon again" in log
    assert "Traceback" not in log


@pytest.mark.parametrize("lose", LOSSES)
def test_an_idle_daemon_notices_too(
    serve: Callable[..., Served], lose: Callable[[Path], None]
) -> None:
    served = serve()
    served.register("m", mlp(8, 8, 2))  # the log exists from the first write
    lose(served.data_dir)
    assert served.process.wait(DEADLINE_S) == 3
    served.stop()


def test_readyz_says_that_the_folder_is_gone(serve_inside: Callable[..., Any]) -> None:
    inside = serve_inside()
    data_dir: Path = inside.daemon.settings.data_dir
    with client(inside.url) as asking:
        assert asking.get("/readyz").status_code == 200
        move_folder(data_dir)
        wait_until(lambda: inside.daemon.storage_is_broken, "the daemon to notice")
        answer = asking.get("/readyz")
    assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")
    assert "hone.db was removed while the daemon ran" in answer.json()["detail"]


def test_what_was_acknowledged_is_there_once_the_folder_is_put_back(
    serve: Callable[..., Served],
) -> None:
    served = serve()
    served.register("m", mlp(8, 8, 2))
    kept: list[str] = []
    threads = [
        threading.Thread(target=upload_until_refused, args=(served, number, kept))
        for number in range(4)
    ]
    for each in threads:
        each.start()
    wait_until(lambda: len(kept) >= 40, "uploads")
    move_folder(served.data_dir)
    for thread in threads:
        thread.join()
    assert served.process.wait(DEADLINE_S) == 3
    served.stop()

    served.data_dir.with_name("moved").rename(served.data_dir)
    again = serve()

    assert [key for key in kept if not stored(again, key)] == []


def stored(served: Served, key: str) -> list[Any]:
    found: list[Any] = served.http.get("/v1/models/m/samples", params={"key": key}).json()["items"]
    return found


def upload_until_refused(served: Served, number: int, kept: list[str]) -> None:
    with client(served.url, token=served.token) as app:
        for turn in range(100_000):
            key = f"{number}-{turn}"
            sample = {"inputs": {"x": [number, turn, *[0.0] * 6]}, "label": 1, "key": key}
            try:
                answer = app.post("/v1/models/m/samples", json=sample)
            except httpx.TransportError:
                return
            if answer.status_code != 201:
                return
            kept.append(key)
