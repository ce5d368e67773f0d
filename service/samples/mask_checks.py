"""Has masks and boxes checked against their photos in a process: files may be malicious."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, TypeVar

import numpy as np

from service.errors import ChildDied
from service.prediction.frames import SIZES, Array, Frame, decode, encode
from service.processes.children import Children
from service.processes.exits import ErrorTail, describe_exit
from service.samples.columns import Unfitted, Value
from storage.records.models import Model
from storage.records.signatures import TargetSpec

TIMEOUT_S = 30.0
AT_ONCE = 2
BLACK_AND_WHITE = (
    "some masks have the values 0 and 255, and 255 does not count: for a class in white send 1, or"
    " PNGs of 1 bit"
)
Result = TypeVar("Result")


class MaskChecks:
    """Starts the processes, a few at a time. Made on the event loop, used by other threads."""

    def __init__(self, children: Children) -> None:
        self.children = children
        self.turns = asyncio.Semaphore(AT_ONCE)
        self._loop = asyncio.get_running_loop()

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        """The result of what runs on the event loop."""
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


class SentMask(Unfitted, frozen=True):
    """A mask as it came: a PNG, or run lengths of classes. check: knows what fits a photo."""

    check: MaskCheck | None
    png: bytes = b""
    runs: tuple[Mapping[str, Any], ...] | None = None

    def fitted(self, record: bytes) -> Value:
        assert self.check is not None
        return self.check.stored(self, record)


class MaskCheck:
    """Checks the masks or boxes of one request; its process starts with the first of them.

    warnings: what may be wrong with those that are stored, for people.
    """

    def __init__(self, checks: MaskChecks, model: Model) -> None:
        self._checks = checks
        self._target = model.signature.target
        self._process: asyncio.subprocess.Process | None = None
        self.warnings: tuple[str, ...] = ()

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._checks.wait(self._end(self._process))

    def stored(self, sent: SentMask, photo: bytes) -> tuple[bytes | None, str | None]:
        """The PNG that is stored as a label, or what is wrong with the mask. Raises ChildDied."""
        answer = self._checks.wait(self._ask(question_of(self._target, sent, photo)))
        if "fault" in answer.header:
            return None, answer.header["fault"]
        if answer.header.get("black_and_white"):
            self.warnings = (BLACK_AND_WHITE,)
        return answer.tensors["png"].tobytes(), None

    def size_of(self, photo: bytes) -> tuple[tuple[int, int] | None, str | None]:
        """Height and width of a photo as it is seen, or what is wrong with it. Raises ChildDied."""
        header = self._checks.wait(self._ask(Frame({}, {"photo": as_tensor(photo)}))).header
        size, fault = header.get("size"), header.get("fault")
        return size and (size[0], size[1]), fault

    async def _ask(self, question: Frame) -> Frame:
        if self._process is None:
            await self._checks.turns.acquire()
            try:
                self._process = await self._checks.children.spawn("service.preprocess.masks")
            except BaseException:
                self._checks.turns.release()
                raise
            assert self._process.stderr is not None
            self._errors = ErrorTail(self._process.stderr)
        try:
            return await asyncio.wait_for(_exchange(self._process, question), TIMEOUT_S)
        except asyncio.TimeoutError:
            raise ChildDied(f"a photo's label was not checked within {TIMEOUT_S:g} s") from None
        except (asyncio.IncompleteReadError, ConnectionError) as error:
            code = await self._process.wait()
            await self._errors.wait()
            told = f"the check of a photo's label {describe_exit(code)}{self._errors.quote()}"
            raise ChildDied(told) from error

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        """It waits for nothing: what it was asked is answered, or nobody waits for it any more."""
        try:
            if process.returncode is None:
                process.kill()
            await process.wait()
            await self._errors.wait()
        finally:
            self._checks.turns.release()


def question_of(target: TargetSpec, sent: SentMask, photo: bytes) -> Frame:
    """What the process is asked. photo: the file that the mask is of."""
    header = {"runs": sent.runs, "classes": target.num_classes, "names": target.classes or ()}
    return Frame(header, {"photo": as_tensor(photo), "mask": as_tensor(sent.png)})


def as_tensor(data: bytes) -> Array:
    """The bytes of a file."""
    return np.frombuffer(data, np.uint8)


async def _exchange(process: asyncio.subprocess.Process, question: Frame) -> Frame:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.writelines(encode(question))
    await process.stdin.drain()
    header_bytes, payload_bytes = SIZES.unpack(await process.stdout.readexactly(SIZES.size))
    header = await process.stdout.readexactly(header_bytes)
    return decode(header, await process.stdout.readexactly(payload_bytes))
