"""`GET /v1/backup` from a daemon that goes on working, and what a restored daemon does with it."""

from __future__ import annotations

import io
import json
import socket
import threading
import zipfile
from collections.abc import Callable
from datetime import datetime, timezone
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from hostile_http import slow_reader
from support import DEADLINE_S, Served, blobs, mlp, npz, wait_until

from api import protocol
from service.backup.contents import open_backup, read_contents
from service.backup.restore import restore


def back_up(served: Served) -> bytes:
    answer = served.http.get("/v1/backup")
    assert answer.status_code == 200, answer.text
    return answer.content


def put_back(archive: bytes, data_dir: Path) -> Path:
    file = data_dir.with_name(f"{data_dir.name}.zip")
    file.write_bytes(archive)
    now = datetime.now(timezone.utc)
    with open_backup(file) as opened:
        contents = read_contents(opened, archive_bytes=len(archive))
        restore(opened, contents, data_dir, set_aside=False, now=now, advance=lambda _: None)
    return data_dir


def samples(served: Served, name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    cursor = None
    while True:
        page = served.http.get(
            f"/v1/models/{name}/samples",
            params={"limit": 1000, **({"cursor": cursor} if cursor else {})},
        ).json()
        found += page["items"]
        if (cursor := page["next"]) is None:
            return found


def nothing_is_held(data_dir: Path) -> bool:
    return not list((data_dir / "tmp").glob("backup-*"))


def ask_for_backup(url: str, token: str) -> socket.socket:
    """A client that takes next to nothing of it."""
    head = f"GET /v1/backup HTTP/1.1\r\nHost: {urlsplit(url).netloc}\r\n"
    return slow_reader(url, f"{head}Authorization: Bearer {token}\r\n\r\n".encode())


def test_a_restored_daemon_goes_on_where_the_other_was(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    # Beside other tests a nice job takes long, and checkpoints for all of it.
    first = serve(tmp_path / "first", checkpoint_interval_s=0.1, training_nice=0)
    first.register("m", mlp(32, 64, 4))
    first.upload("m", **blobs(500, 32, 4))
    first.train("m", epochs=1)
    recipe = {"max_steps": 5_000, "batch_size": 16, "seed": 5}
    job = first.ask_for_job("m", **recipe)["id"]
    wait_until(lambda: first.job(job)["progress"]["step"] > 0, "the job to step")
    checkpoints = "/v1/models/m/checkpoints"
    wait_until(
        lambda: any(c["job_id"] == job for c in first.http.get(checkpoints).json()["items"]),
        "a checkpoint of the job",
    )
    archive = back_up(first)
    assert first.wait_for_job(job)["state"] == "succeeded"
    undisturbed = first.http.get("/v1/models/m/versions/3/model.onnx").content

    second = serve(put_back(archive, tmp_path / "second"), training_nice=0)

    assert second.wait_for_job(job)["state"] == "succeeded"
    assert "job.succeeded" in second.said(), "the backup was made before the job's end"
    assert second.http.get("/v1/models/m/versions/3/model.onnx").content == undisturbed
    assert samples(second, "m") == samples(first, "m")
    one, two = (each.http.get("/v1/models/m/versions/2").json() for each in (first, second))
    assert one["sha256"] == two["sha256"]
    assert second.upload("m", **blobs(5, 32, 4, seed=9)).json()["ids"] == [501, 505]
    assert second.token != first.token


def test_uploads_and_deletions_meanwhile_do_not_tear_it(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve(tmp_path / "busy")
    served.register("m", mlp(64, 8, 2))
    served.register("dying", mlp(64, 8, 2))
    served.http.patch("/v1/models/m", json={"quota": {"max_samples": 4000}})
    served.upload("m", **blobs(3000, 64, 2))
    served.upload("dying", **blobs(3000, 64, 2))
    done = threading.Event()
    failures: list[object] = []

    def disturb() -> None:
        for turn in range(100):
            if served.upload("m", **blobs(100, 64, 2, seed=turn)).status_code != 201:
                failures.append("an upload was refused")
            served.http.delete(f"/v1/models/m/samples/{samples(served, 'm')[0]['id']}")
            if turn == 3:
                served.http.delete("/v1/models/dying")
            if done.is_set():
                return

    worker = threading.Thread(target=disturb)
    worker.start()
    archives = [back_up(served) for _ in range(2)]
    done.set()
    worker.join()

    assert failures == []
    for number, archive in enumerate(archives):
        restored = serve(put_back(archive, tmp_path / f"restored-{number}"))
        for model in restored.http.get("/v1/models").json()["items"]:
            rows = samples(restored, model["name"])
            assert len(rows) == sum(model["samples"].values())
            for row in rows[::97]:
                url = f"/v1/models/{model['name']}/samples/{row['id']}/content"
                assert restored.http.get(url).status_code == 200
        whole = restored.http.get("/v1/models/m/samples/archive")
        assert zipfile.ZipFile(io.BytesIO(whole.content)).testzip() is None
        assert restored.stop() == 0
    wait_until(lambda: nothing_is_held(served.data_dir), "the snapshots to be let go")


def test_caches_logs_and_the_token_are_not_in_it(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve(tmp_path / "data")
    served.register("m", mlp(3, 4, 2))
    served.upload("m", x=np.eye(3, dtype=np.float32), key=np.array(["a", "b", "c"]))
    (served.data_dir / "cache" / "1").mkdir(exist_ok=True)
    (served.data_dir / "cache" / "1" / "rows").write_bytes(b"cached")

    archive = back_up(served)

    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        places = {name.split("/")[0] for name in opened.namelist()}
        manifest = json.loads(opened.read("manifest.json"))
        content = b"".join(opened.read(name) for name in opened.namelist())
    assert places == {"files", "packs", "hone.db", "manifest.json"}
    assert served.token.encode() not in content
    assert (manifest["format"], manifest["version"]) == ("hone-backup", 1)
    assert served.tokenless.get("/v1/backup").status_code == 401


def test_a_reader_that_goes_away_leaves_nothing_behind(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    served = serve(tmp_path / "data")
    served.register("m", mlp(1280, 2))
    served.upload("m", **blobs(5000, 1280, 2))

    with ask_for_backup(served.url, served.token) as silent:
        assert silent.recv(1)
        assert not nothing_is_held(served.data_dir)

    wait_until(lambda: nothing_is_held(served.data_dir), "the snapshot to be let go")
    assert served.stop() == 0


def test_a_reader_that_stalls_is_cut_off(
    serve_inside: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(protocol, "MAX_STALL_S", 0.2)
    inside = serve_inside()
    headers = {"Authorization": f"Bearer {inside.token}"}
    with httpx.Client(
        base_url=inside.url, headers=headers, trust_env=False, timeout=DEADLINE_S
    ) as http:
        spec = json.dumps({"name": "m", "loss": "cross_entropy"})
        model = {"model": mlp(1280, 2)}
        http.post("/v1/models", data={"spec": spec}, files=model).raise_for_status()
        kind, content = {"Content-Type": "application/x-npz"}, npz(**blobs(5000, 1280, 2))
        http.post("/v1/models/m/samples", content=content, headers=kind).raise_for_status()
    data_dir = tmp_path / "inside"

    with ask_for_backup(inside.url, inside.token) as silent:
        assert silent.recv(1)
        wait_until(lambda: nothing_is_held(data_dir), "the reader to be cut off")
