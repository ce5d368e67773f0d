"""The child processes of one daemon: they share a memory limit; brief shortages are retried.

Each may leave files in a temporary folder, which is removed after it.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from service.background import BackgroundTasks
from service.logs import event
from service.processes.interpreter import DEFAULT_BUFFER_BYTES, spawn
from service.processes.memory import SharedMemoryCap
from storage.disk.durable import fault_behind, file_faults
from storage.errors import Busy, in_words

logger = logging.getLogger(__name__)

RETRY_DELAYS_S = (0.1, 0.2, 0.4, 0.8, 1.6, 3.2)
OOM_SCORE_ADJ = 500
"""Of 1000. If the device runs out of memory, the kernel kills a child before other programs."""


class Children:
    """Starts child processes. Belongs to the event loop.

    memory_cap_bytes: what living children may use together, None for no limit.
    """

    def __init__(self, *, memory_cap_bytes: int | None) -> None:
        self.memory = SharedMemoryCap(memory_cap_bytes)
        self._tasks = BackgroundTasks()

    async def spawn(
        self,
        module: str,
        *arguments: str,
        buffer_bytes: int = DEFAULT_BUFFER_BYTES,
    ) -> asyncio.subprocess.Process:
        """Start a module as `interpreter.spawn` does, under the shared memory cap.

        Raises Busy if the system lacks resources for a process for some seconds, OSError.
        """
        process = await _spawn_in_spite_of_shortages(module, *arguments, buffer_bytes=buffer_bytes)
        _prefer_for_oom_kill(process.pid)
        self.memory.add(process.pid)
        self._tasks.start(self._release(process), name="children")
        return process

    async def _release(self, process: asyncio.subprocess.Process) -> None:
        await process.wait()
        self.memory.remove(process.pid)


@asynccontextmanager
async def work_folder(purpose: str, *, parent: Path) -> AsyncIterator[Path]:
    """A new folder for what a child makes, removed when the block ends.

    If it cannot be removed, the log says so, because the block's own error matters more; the next
    start removes it. Raises StorageFull, Busy, StorageBroken.
    """
    with file_faults("cannot make a temporary folder"):
        folder = Path(tempfile.mkdtemp(prefix=f"{purpose}-", dir=parent))
    try:
        yield folder
    finally:
        await asyncio.to_thread(_remove, folder)


def _remove(folder: Path) -> None:
    try:
        shutil.rmtree(folder)
    except OSError as error:
        told = {"folder": folder.name, "detail": in_words(error)}
        event(logger, logging.WARNING, "work_folder.left", **told)


async def _spawn_in_spite_of_shortages(
    module: str, *arguments: str, buffer_bytes: int
) -> asyncio.subprocess.Process:
    delays_s = iter(RETRY_DELAYS_S)
    while True:
        try:
            return await spawn(module, *arguments, buffer_bytes=buffer_bytes)
        except (OSError, RuntimeError) as error:
            shortage = fault_behind(error, "the system has no room for another process")
            if not isinstance(shortage, Busy):
                raise
            delay_s = next(delays_s, None)
            if delay_s is None:
                raise shortage from error
            event(logger, logging.WARNING, "spawn.retried", module=module, detail=in_words(error))
        await asyncio.sleep(delay_s)


def _prefer_for_oom_kill(pid: int) -> None:
    if sys.platform != "linux":
        return
    try:
        Path(f"/proc/{pid}/oom_score_adj").write_text(str(OOM_SCORE_ADJ), "ascii")
    except FileNotFoundError:
        return  # it has ended already
    except OSError as error:
        event(logger, logging.WARNING, "child.oom_score_not_raised", detail=in_words(error))
