"""Children that are started while the system is short of something, and what they are given."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from support import until

from service.processes import children as module
from service.processes.children import Children
from storage.errors import Busy

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="descriptors of POSIX")


class Descriptors:
    """Takes every descriptor that this process may have, and gives them back."""

    def __init__(self) -> None:
        import resource

        self._resource = resource
        self._before = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._taken: list[int] = []

    def take_all(self) -> None:
        lowest = os.dup(0)
        os.close(lowest)
        self._resource.setrlimit(
            self._resource.RLIMIT_NOFILE, (max(lowest + 8, 64), self._before[1])
        )
        with contextlib.suppress(OSError):
            while True:
                self._taken.append(os.open(os.devnull, os.O_RDONLY))

    def give_back(self) -> None:
        while self._taken:
            os.close(self._taken.pop())
        self._resource.setrlimit(self._resource.RLIMIT_NOFILE, self._before)


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
    descriptors = Descriptors()

    async def run() -> None:
        children = Children(memory_cap_bytes=None)
        descriptors.take_all()
        try:
            await children.spawn("json.tool")
        finally:
            descriptors.give_back()

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
