"""The daemon's end of a training child: start it, read its messages, send it commands, end it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import Any

from service.errors import ChildDied
from service.processes.children import Children
from service.processes.exits import ErrorTail, describe_exit
from service.training.protocol.messages.lines import encode
from service.training.protocol.messages.shared import Failed, Stopped
from service.training.protocol.messages.unions import Command, Last, Message, Task, decode_message
from service.training.protocol.serialization import plain
from storage.errors import Busy, StorageBroken, StorageFull

MAX_LINE_BYTES = 64 * 2**20
"""Maximum message size; a confusion matrix of a thousand classes takes a few MiB."""
GRACE_S = 5.0
"""How long a child may take to exit once asked to."""
KILL_SOON_S = 0.2
"""How long a child that is killed soon may still work."""
NEGLIGIBLE = 0.1
"""The part of a silence that is not worth another look at the child."""
LOOKS_AFTER_S = 1.0
"""How long a silence may be without any. What Linux keeps of a thread that was looked at, its last
thread removes as it ends; with a low priority that takes 7 ms, in which the daemon's wait for the
child's end keeps a processor busy."""
OF_THE_DEVICE = {kind.code: kind for kind in (StorageFull, Busy, StorageBroken)}
"""Errors caused by the device, not by the task."""


class Child:
    """A fresh interpreter that carries out one task.

    folder: where it may leave files. A path outside it is rejected, because the daemon would move
    that file, whatever it is, among its own. on_stderr: called with what the child writes there.
    """

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        *,
        folder: str | None = None,
        on_stderr: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        assert process.stderr is not None
        self._process = process
        self._folder = folder
        self._errors = ErrorTail(process.stderr, on_stderr)
        self._killed = asyncio.get_running_loop().create_future()

    @classmethod
    async def spawn(
        cls, children: Children, task: Task, *, on_stderr: Callable[[bytes], None] = lambda _: None
    ) -> Child:
        """Start `python -m service.training` and hand it the task. Raises Busy."""
        process = await children.spawn("service.training", buffer_bytes=MAX_LINE_BYTES)
        child = cls(process, folder=getattr(task, "work_dir", None), on_stderr=on_stderr)
        await child._write(encode(task))
        return child

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, None while the child runs; negative: the signal."""
        return self._process.returncode

    async def send(self, command: Command) -> None:
        """Ask the child to pause or cancel; it answers with `Stopped`."""
        await self._write(encode(command))

    def kill_soon(self) -> None:
        """Kill the child in a moment, if it still runs.

        Its messages then end with `Stopped` at once: it does nothing more, but with a low priority
        it can take seconds until it is gone.
        """
        asyncio.get_running_loop().call_later(KILL_SOON_S, self._kill)

    def _kill(self) -> None:
        if self._process.returncode is None and not self._killed.done():
            self._process.kill()
            self._killed.set_result(None)

    async def messages(self, *, silence_timeout_s: float) -> AsyncIterator[Message]:
        """Every message up to the last of the task.

        Raises ChildDied when the child ends earlier, or sends nothing for silence_timeout_s, not
        counting time in which it waited for a processor; StorageFull, Busy or StorageBroken when
        the task failed because of the device.
        """
        while True:
            try:
                line = await self._line(silence_timeout_s)
            except asyncio.TimeoutError:
                await self.close(grace_s=0)
                raise ChildDied(
                    f"the training child said nothing for {silence_timeout_s:g} s and was killed"
                    f"{self._errors.quote()}"
                ) from None
            if self._killed.done():
                yield Stopped(reason="cancelled")
                return
            if not line:
                raise ChildDied(await self._obituary())
            message = self._decode(line)
            if isinstance(message, Failed) and message.code in OF_THE_DEVICE:
                raise OF_THE_DEVICE[message.code](message.detail)
            yield message
            if isinstance(message, Last):
                return

    async def _line(self, silence_timeout_s: float) -> bytes:
        """Empty at the end, or once killed. Raises asyncio.TimeoutError."""
        assert self._process.stdout is not None
        began = monotonic()
        left_s = min(LOOKS_AFTER_S, silence_timeout_s * NEGLIGIBLE)
        before: dict[str, float] | None = None
        reading = asyncio.ensure_future(self._process.stdout.readline())
        try:
            while not await _first_of(reading, self._killed, timeout_s=left_s):
                after = _waits_for_processor_s(self.pid)
                before = after if before is None else before
                waited_s = max((after[pid] - before.get(pid, 0.0) for pid in after), default=0.0)
                left_s = silence_timeout_s - (monotonic() - began - waited_s)
                if left_s < silence_timeout_s * NEGLIGIBLE:
                    raise asyncio.TimeoutError
            return b"" if self._killed.done() else reading.result()
        finally:
            reading.cancel()

    async def close(self, *, grace_s: float = GRACE_S) -> None:
        """End the child: end of input, then terminate, then kill. Safe to call twice."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        for stop, patience_s in ((None, grace_s), (self._process.terminate, grace_s)):
            if stop is not None and self._process.returncode is None:
                stop()
            try:
                await asyncio.wait_for(self._process.wait(), patience_s)
                break
            except asyncio.TimeoutError:
                continue
        if self._process.returncode is None:
            self._process.kill()
            await self._process.wait()
        await self._errors.wait()

    async def _write(self, line: bytes) -> None:
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line)
            await self._process.stdin.drain()
        except (BrokenPipeError, ConnectionResetError):
            return  # the child is gone: messages() tells how

    def _decode(self, line: bytes) -> Message:
        try:
            message = decode_message(line)
        except ValueError as error:
            raise ChildDied(f"the training child spoke out of turn: {line[:200]!r}") from error
        for path in files_named(message):
            if self._folder is None or not _is_below(self._folder, path):
                raise ChildDied(f"the training child named a file that is not its own: {path!r}")
        return message

    async def _obituary(self) -> str:
        code = await self._process.wait()
        await self._errors.wait()
        early = " before it was done" if code >= 0 else ""
        return f"the training child {describe_exit(code)}{early}{self._errors.quote()}"


async def _first_of(*futures: asyncio.Future[Any], timeout_s: float) -> bool:
    """Whether one of them is done in time."""
    done, _ = await asyncio.wait(futures, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    return bool(done)


def files_named(message: Message) -> list[str]:
    """Paths of the files that the message says the child has written."""
    fields = plain(message)
    named = [
        *map(fields.get, ("path", "base_model", "residual")),
        *fields.get("artifacts", {}).values(),
    ]
    return [path for path in named if path is not None]


def _waits_for_processor_s(pid: int) -> dict[str, float]:
    """How long each of its threads was ready to run while others did; empty if this is not known.

    With a low priority it is long: on two busy processors a child of niceness 10 got 3 % of one.
    Source: Linux, Documentation/scheduler/sched-stats.rst.
    """
    waits: dict[str, float] = {}
    with suppress(OSError):  # another system, or a thread has just ended
        for thread in Path(f"/proc/{pid}/task").iterdir():
            waits[thread.name] = int((thread / "schedstat").read_bytes().split()[1]) / 1e9
    return waits


def _is_below(folder: str, path: str) -> bool:
    return Path(path).resolve().is_relative_to(Path(folder).resolve())
