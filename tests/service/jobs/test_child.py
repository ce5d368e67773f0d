"""The parent's end of a child: a real interpreter that dies, hangs or floods."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest
from support import DEADLINE_S

from service.errors import ChildDied
from service.jobs.child import Child
from service.training.protocol.messages.lines import encode
from service.training.protocol.messages.shared import Failed, Stopped
from service.training.protocol.messages.training import LoopState, Saved
from service.training.protocol.messages.unions import Message
from storage.errors import Busy, HoneError, StorageBroken, StorageFull

STARVED = r"""
import os, subprocess, sys, time
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
busy = "import os; us = os.getppid(); print(0)\nwhile os.getppid() == us: pass"
with subprocess.Popen([sys.executable, "-uc", busy], stdout=subprocess.PIPE) as other:
    other.stdout.readline()
    os.nice(19)
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    other.kill()
"""
"""A process that works for a moment while a more important one has its processor."""
LEAVES_ITS_PIPE_OPEN = r"""
import subprocess, sys
subprocess.run([sys.executable, "-c", "import sys; sys.stdin.read()"], stderr=subprocess.DEVNULL)
"""
"""As that of a killed process stays, while one of low priority waits to be taken down."""
GOOD = encode(Failed(code="no_samples", detail="there is nothing")).decode()


async def spawn(script: str, folder: Path | None = None) -> Child:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-c",
        script,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=2**20,
    )
    return Child(process, folder=None if folder is None else str(folder))


def hear(
    script: str, *, silence_timeout_s: float = 30, folder: Path | None = None
) -> list[Message]:
    async def run() -> list[Message]:
        child = await spawn(script, folder)
        try:
            return [m async for m in child.messages(silence_timeout_s=silence_timeout_s)]
        finally:
            await child.close()
            assert child.returncode is not None

    return asyncio.run(run())


def test_messages_end_with_the_last_of_the_task() -> None:
    heard = hear(f"print({GOOD!r}, end=''); print('never heard')")

    assert heard == [Failed(code="no_samples", detail="there is nothing")]


def test_a_dead_child_is_quoted() -> None:
    with pytest.raises(ChildDied, match=r"exit code 3 .*last words: .*out of luck"):
        hear("import sys; print('out of luck', file=sys.stderr); sys.exit(3)")


@pytest.mark.parametrize("fault", [StorageFull, Busy, StorageBroken])
def test_a_fault_of_the_device_is_told_as_what_it_is(fault: type[HoneError]) -> None:
    told = encode(Failed(code=fault.code, detail="the disk")).decode()

    with pytest.raises(fault, match="the disk") as raised:
        hear(f"print({told!r}, end='')")

    assert type(raised.value) is fault


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals of this kind")
@pytest.mark.parametrize(("name", "words"), [("SIGSEGV", "SIGSEGV"), ("SIGKILL", "memory")])
def test_a_native_crash_is_named(name: str, words: str) -> None:
    with pytest.raises(ChildDied, match=words):
        hear(f"import os, signal; os.kill(os.getpid(), signal.{name})")


def test_a_silent_child_is_killed() -> None:
    script = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"

    with pytest.raises(ChildDied, match=r"said nothing for 0\.2 s"):
        hear(script, silence_timeout_s=0.2)


def test_the_messages_of_a_killed_child_end_before_it_is_gone() -> None:
    async def run() -> list[Message]:
        child = await spawn(LEAVES_ITS_PIPE_OPEN)
        child.kill_soon()
        child.kill_soon()
        try:
            return [m async for m in child.messages(silence_timeout_s=DEADLINE_S)]
        finally:
            await child.close()

    assert asyncio.run(run()) == [Stopped(reason="cancelled")]


@pytest.mark.skipif(sys.platform != "linux", reason="the time is known on Linux")
def test_a_child_that_waits_for_a_processor_is_not_killed_for_its_silence() -> None:
    assert len(hear(f"{STARVED}print({GOOD!r}, end='')", silence_timeout_s=2)) == 1


def test_noise_on_the_message_pipe_is_a_fault_of_the_child() -> None:
    with pytest.raises(ChildDied, match="out of turn"):
        hear("print('hello')")


def test_a_flood_on_stderr_does_not_block_the_child() -> None:
    heard = hear(f"import sys; sys.stderr.write('x' * 10_000_000); print({GOOD!r}, end='')")

    assert len(heard) == 1


def test_a_child_ends_when_its_input_does(tmp_path: Path) -> None:
    ended = encode(Stopped(reason="orphaned")).decode()
    script = f"import sys; sys.stdin.read(); print({ended!r}, end='')"

    async def run() -> int | None:
        child = await spawn(script)
        await child.close()
        return child.returncode

    assert asyncio.run(run()) == 0


def saved(path: Path) -> str:
    """A script that says that a checkpoint lies there, and that it is done."""
    lines = encode(Saved(str(path), "periodic", LoopState())).decode() + GOOD
    return f"print({lines!r}, end='')"


def test_a_file_in_the_childs_own_folder_is_taken(tmp_path: Path) -> None:
    heard = hear(saved(tmp_path / "state"), folder=tmp_path)
    assert isinstance(heard[0], Saved)


@pytest.mark.parametrize("name", ["/etc/passwd", "../admin.token", "link/admin.token"])
def test_a_file_that_lies_elsewhere_is_not_taken(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "link").symlink_to(tmp_path)
    if not (folder / "link").is_symlink():
        pytest.skip("Wine makes no symbolic links")
    with pytest.raises(ChildDied, match="named a file that is not its own"):
        hear(saved(folder / name), folder=folder)
