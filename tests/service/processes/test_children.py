"""Children that are started while the system is short of something, and what they are given."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from descriptors import Descriptors, no_descriptor_left
from support import until

from service.processes import children as module
from service.processes.children import Children
from storage.errors import Busy

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="descriptors of POSIX")


def retried(caplog: pytest.LogCaptureFixture) -> bool:
    return any(record.message == "spawn.retried" for record in caplog.records)


def test_a_child_starts_once_there_are_descriptors_again(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    descriptors = Descriptors()

    async def run() -> bytes:
        children = Children(memory_cap_bytes=None)
        descriptors.take_all()
        try:
            starting = asyncio.create_task(children.spawn("json.tool", "--compact"))
            await until(lambda: retried(caplog), "a second attempt to start")
        finally:
            descriptors.give_back()
        said, _ = await (await starting).communicate(b"[ 1 ]")
        return said

    assert asyncio.run(run()) == b"[1]\n"


def test_a_child_starts_once_there_is_memory_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    start, refused = asyncio.create_subprocess_exec, []

    async def refuse_once(*command: Any, **options: Any) -> asyncio.subprocess.Process:
        if not refused:
            refused.append(OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)))
            raise refused[0]
        return await start(*command, **options)

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse_once)
    monkeypatch.setattr(module, "RETRY_DELAYS_S", (0.0,))

    async def run() -> bytes:
        children = Children(memory_cap_bytes=None)
        said, _ = await (await children.spawn("json.tool", "--compact")).communicate(b"[ 1 ]")
        return said

    assert asyncio.run(run()) == b"[1]\n"
    assert retried(caplog)


def test_a_lasting_shortage_is_told_as_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "RETRY_DELAYS_S", (0.0, 0.0))

    async def run() -> None:
        children = Children(memory_cap_bytes=None)
        with no_descriptor_left():
            await children.spawn("json.tool")

    with pytest.raises(Busy, match="no room for another process"):
        asyncio.run(run())


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_child_is_limited_and_ended_first_when_memory_runs_out() -> None:
    cap_bytes = 700 * 2**20

    async def run() -> tuple[str, str]:
        children = Children(memory_cap_bytes=cap_bytes)
        process = await children.spawn("json.tool")
        proc = Path(f"/proc/{process.pid}")
        limits = await asyncio.to_thread((proc / "limits").read_text)
        score = await asyncio.to_thread((proc / "oom_score_adj").read_text)
        await process.communicate(b"1")
        return limits, score

    limits, score = asyncio.run(run())
    line = next(line for line in limits.splitlines() if line.startswith("Max data size"))
    assert abs(int(line.split()[3]) - cap_bytes) < 2**20
    assert int(score) == 500
