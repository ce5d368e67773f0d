"""Starting a child: a real interpreter, and what it is given."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from service.processes.interpreter import environment, own_interpreter, spawn, start_silently


def test_a_child_answers_on_its_pipes() -> None:
    async def run() -> tuple[bytes, bytes, int | None]:
        process = await spawn("json.tool", "--compact")
        said, errors = await process.communicate(b'{"a":  1}')
        return said, errors, process.returncode

    assert asyncio.run(run()) == (b'{"a":1}' + os.linesep.encode(), b"", 0)


def test_a_child_reads_and_writes_utf8(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenAPI's description has an arrow, which the code page of Windows lacks."""
    monkeypatch.setenv("PYTHONUTF8", "0")
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.setenv("PYTHONCOERCECLOCALE", "0")

    async def run() -> tuple[bytes, bytes]:
        process = await spawn("json.tool", "--no-ensure-ascii")
        return await process.communicate('"→"'.encode())

    said, errors = asyncio.run(run())
    assert (said.decode().strip(), errors) == ('"→"', b"")


def test_a_child_is_one_process_in_our_environment() -> None:
    """Windows would count and stop python.exe of a virtual environment, which only starts it."""
    child = subprocess.Popen(
        [own_interpreter()[0], "-c", "import os, sys; print(os.getpid(), sys.prefix)"],
        stdout=subprocess.PIPE,
        env=environment(),
        text=True,
    )
    assert child.communicate()[0] == f"{child.pid} {sys.prefix}\n"


def test_a_child_takes_no_module_of_the_working_folder_or_of_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "json").mkdir()
    for name in ("json/__init__.py", "json/tool.py"):
        (tmp_path / name).write_text("raise SystemExit('a decoy ran')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("PYTHONSAFEPATH", "1")
    test_a_child_answers_on_its_pipes()
    assert start_silently("service.processes.interpreter").wait() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_child_never_gets_the_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HONED_TOKEN", "secret")
    monkeypatch.setenv("HONED_OTHER", "public")

    async def run() -> bytes:
        process = await spawn("json.tool")
        seen = await asyncio.to_thread(Path(f"/proc/{process.pid}/environ").read_bytes)
        await process.communicate(b"{}")
        return seen

    seen = asyncio.run(run())
    assert b"HONED_OTHER=public" in seen
    assert b"secret" not in seen
