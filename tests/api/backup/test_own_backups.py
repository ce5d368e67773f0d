"""A daemon whose database broke goes on with its own backup; what is erased is in none."""

from __future__ import annotations

import contextlib
import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support import Served, blobs, mlp, wait_until

from cli import main

SECRET = "patient-4711-secret"


def spoil(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for page in range(5, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(content)


def backups(data_dir: Path) -> list[Path]:
    return sorted(data_dir.glob("backups/*.db"))


def status(served: Served, *arguments: str) -> str:
    variables = {"HONED_URL": served.url, "HONED_TOKEN": served.token}
    variables["HONED_DATA_DIR"] = str(served.data_dir)
    return CliRunner().invoke(main.honed, arguments, env=variables).stdout


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_daemon_whose_database_broke_goes_on_with_its_backup_loudly(
    serve: Callable[..., Served], data_dir: Path
) -> None:
    first = serve(data_dir)
    first.register("m", mlp(8, 2))
    first.upload("m", split="train", **blobs(200, 8, 2))
    first.train("m", epochs=1)
    assert "database" not in status(first, "status")
    assert first.stop() == 0
    (backup,) = backups(data_dir)

    second = serve(data_dir)
    second.upload("m", split="train", **blobs(50, 8, 2, seed=1))
    second.stop(signal.SIGKILL)
    spoil(data_dir / "hone.db")
    third = serve(data_dir)

    ready = third.tokenless.get("/readyz").json()
    assert ready["database_restored"]["backup_from"] == f"{backup.stem[:4]}-{backup.stem[4:6]}-" + (
        f"{backup.stem[6:11]}:{backup.stem[11:13]}:{backup.stem[13:]}"
    )
    assert " error   database.restored " in third.log.read_text()
    assert "was damaged, and restored at" in status(third, "status")
    checks = {each["name"]: each for each in json.loads(status(third, "doctor", "--json"))}
    assert checks["database"]["status"] == "warn"
    assert third.http.get("/v1/models/m").json()["samples"]["train"] == 200
    assert third.http.get("/v1/models/m/versions/2/model.onnx").status_code == 200
    third.upload("m", split="train", **blobs(50, 8, 2, seed=2))
    third.train("m", epochs=1)
    (folder,) = data_dir.glob("broken/*")
    (folder / "note.json").unlink()
    again = third.tokenless.get("/readyz").json()
    assert again["database_restored"] is None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_without_a_backup_the_start_is_refused_and_says_what_to_do(
    serve: Callable[..., Served], data_dir: Path
) -> None:
    first = serve(data_dir)
    first.register("m", mlp(8, 2))
    first.upload("m", **blobs(200, 8, 2))
    first.stop(signal.SIGKILL)
    (data_dir / "hone.db-wal").unlink()
    (data_dir / "hone.db").write_bytes(b"no database " * 1000)

    command = [sys.executable, "-m", "honed", "serve", "--port", "0", "--data-dir", str(data_dir)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)

    assert ended.returncode == 1
    assert "honed restore FILE --replace" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_a_clean_stop_makes_a_backup_once_a_day(
    serve: Callable[..., Served], data_dir: Path
) -> None:
    empty = serve(data_dir)
    assert empty.stop() == 0
    assert backups(data_dir) == []
    first = serve(data_dir)
    first.register("m", mlp(8, 2))
    assert first.stop() == 0
    made = backups(data_dir)

    second = serve(data_dir)
    second.upload("m", **blobs(20, 8, 2))
    assert second.stop() == 0

    assert len(made) == 1
    assert backups(data_dir) == made


def files_with(data_dir: Path, needle: bytes) -> list[str]:
    """Files that hold the needle; those that vanish meanwhile do not count."""
    found = []
    for path in data_dir.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            if path.is_file() and needle in path.read_bytes():
                found.append(str(path.relative_to(data_dir)))
    return found


def test_what_is_erased_is_in_no_backup(serve: Callable[..., Served], data_dir: Path) -> None:
    first = serve(data_dir)
    first.register("m", mlp(3, 2))
    x = np.eye(3, dtype=np.float32)
    first.upload("m", split="train", x=x, key=np.array(["a", SECRET, "c"]))
    assert first.stop() == 0
    second = serve(data_dir)
    assert f"backups/{backups(data_dir)[0].name}" in files_with(data_dir, SECRET.encode())

    deleted = second.http.delete("/v1/models/m/samples", params={"key": SECRET})

    assert deleted.json()["deleted"] == 1
    assert files_with(data_dir, SECRET.encode()) == []
    assert len(backups(data_dir)) == 1


def test_a_deleted_model_is_in_no_backup(serve: Callable[..., Served], data_dir: Path) -> None:
    first = serve(data_dir)
    first.register("m", mlp(3, 2))
    first.upload("m", x=np.eye(3, dtype=np.float32), key=np.array(["a", SECRET, "c"]))
    assert first.stop() == 0
    second = serve(data_dir)
    assert f"backups/{backups(data_dir)[0].name}" in files_with(data_dir, SECRET.encode())

    second.http.delete("/v1/models/m").raise_for_status()

    wait_until(
        lambda: not [name for name in files_with(data_dir, SECRET.encode()) if "backups" in name],
        "the model to leave the backups",
    )
