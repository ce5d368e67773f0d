"""A predictor process and its pipes: started on demand, replaced after a crash, ended when idle."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from time import monotonic
from typing import TypeVar

from service.errors import ChildDied, PredictionTimeout
from service.logs import event
from service.prediction.frames import SIZES, Frame, decode, encode
from service.processes.children import Children
from service.processes.exits import ErrorTail, describe_exit
from service.settings import Settings
from storage.errors import in_words

BUFFER_BYTES = 2**20
GRACE_S = 2.0
"""How long the process may take to exit once its input is closed."""


T = TypeVar("T")


async def within(future: asyncio.Future[T], timeout_s: float) -> T:
    """The result of a future, which ends with the time and with its caller.

    Before Python 3.12, `asyncio.wait_for` loses a cancellation that comes together with the result:
    a text was generated to its end for a client that had left. Raises asyncio.TimeoutError.
    """
    try:
        await asyncio.wait({future}, timeout=timeout_s)
        if not future.done():
            raise asyncio.TimeoutError
        return future.result()
    finally:
        future.cancel()


class NotStarted(Exception):
    """The process ended while working on an earlier question: this one may be retried."""


class PredictorProcess:
    """A fresh interpreter that answers questions one after the other."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin is not None
        assert process.stderr is not None
        self._process = process
        self._stdin = process.stdin
        self._writing = asyncio.Lock()
        self._waiting: deque[asyncio.Future[Frame]] = deque()
        self._timed_out = False
        self._errors = ErrorTail(process.stderr)
        self._answer_reader = asyncio.create_task(self._read_answers())

    @classmethod
    async def spawn(
        cls, settings: Settings, children: Children, *, files: Path
    ) -> PredictorProcess:
        """Start `python -m service.prediction`. Raises Busy, ChildDied if the system refuses."""
        options = {
            "--threads": settings.prediction_threads,
            "--sessions": settings.prediction_sessions,
            "--model-bytes": settings.prediction_model_bytes,
            "--files": files,
        }
        arguments = [str(part) for option in options.items() for part in option]
        try:
            process = await children.spawn(
                "service.prediction", *arguments, buffer_bytes=BUFFER_BYTES
            )
        except OSError as error:
            raise ChildDied(f"the predictor cannot be started: {in_words(error)}") from error
        return cls(process)

    @property
    def alive(self) -> bool:
        """Whether it still answers."""
        return not self._answer_reader.done()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    async def ask(self, question: Frame, *, timeout_s: float) -> Frame:
        """The answer, once all earlier questions are answered.

        Raises ChildDied if the process ended over this question, NotStarted if over an earlier one,
        PredictionTimeout; a process that has worked on this question for too long is killed.
        """
        answer: asyncio.Future[Frame] = asyncio.get_running_loop().create_future()
        pieces = encode(question)
        async with self._writing:
            if not self.alive:
                raise NotStarted
            self._waiting.append(answer)
            self._stdin.writelines(pieces)
            with suppress(ConnectionError):  # the listener reports how the process ended
                await self._stdin.drain()
        try:
            return await within(answer, timeout_s)
        except asyncio.TimeoutError:
            if self._waiting and self._waiting[0] is answer and self._process.returncode is None:
                self._timed_out = True
                self._process.kill()
            raise PredictionTimeout(
                f"no answer within {timeout_s:g} s (HONED_PREDICTION_TIMEOUT_S); send fewer inputs"
            ) from None

    async def close(self) -> None:
        """End the process: end of input, then kill. Safe to call twice."""
        self._stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), GRACE_S)
        except asyncio.TimeoutError:
            self._process.kill()
            await self._process.wait()
        await asyncio.wait({self._answer_reader})
        await self._errors.wait()

    async def _read_answers(self) -> None:
        assert self._process.stdout is not None
        stdout = self._process.stdout
        try:
            while True:
                header_bytes, payload_bytes = SIZES.unpack(await stdout.readexactly(SIZES.size))
                header = await stdout.readexactly(header_bytes)
                frame = decode(header, await stdout.readexactly(payload_bytes))
                answer = self._waiting.popleft()
                if not answer.done():
                    answer.set_result(frame)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        code = await self._process.wait()
        await self._errors.wait()
        self._fail(code)

    def _fail(self, code: int) -> None:
        """Fail all pending questions; only the first was being worked on."""
        waiting, self._waiting = self._waiting, deque()
        if waiting and not self._timed_out:
            _refuse(
                waiting.popleft(),
                ChildDied(f"the predictor {describe_exit(code)}{self._errors.quote()}"),
            )
        for answer in waiting:
            _refuse(answer, NotStarted())


def _refuse(answer: asyncio.Future[Frame], error: Exception) -> None:
    if not answer.done():
        answer.set_exception(error)


logger = logging.getLogger(__name__)

TRIES = 2
"""How often a question is tried if its process dies."""


class Worker:
    """Belongs to the event loop.

    files: the folder of the models' files. on_idle: called when the process ends because it is
    idle.
    """

    def __init__(
        self,
        settings: Settings,
        children: Children,
        *,
        files: Path,
        on_idle: Callable[[], None],
    ) -> None:
        self._settings = settings
        self._children = children
        self._files = files
        self._on_idle = on_idle
        self._process: PredictorProcess | None = None
        self._starting = asyncio.Lock()
        self._asking = 0
        self._used_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._dropping: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process id, None while none runs."""
        return self._process.pid if self._process is not None else None

    async def ask(self, question: Frame) -> Frame:
        """The answer, which may be an error. Raises Busy, PredictionTimeout, ChildDied."""
        self._asking += 1
        try:
            return await self._ask_until_answered(question)
        finally:
            self._asking -= 1

    async def stop(self) -> None:
        """End the process."""
        if self._timer is not None:
            self._timer.cancel()
        if self._dropping is not None:
            await self._dropping
        await self._drop()

    async def _ask_until_answered(self, question: Frame) -> Frame:
        tries = 0
        while True:
            process = await self._running()
            self._used_at = monotonic()
            try:
                return await process.ask(question, timeout_s=self._settings.prediction_timeout_s)
            except NotStarted:
                continue
            except ChildDied as death:
                tries += 1
                event(logger, logging.ERROR, "predictor.died", detail=death.detail, tries=tries)
                if tries >= TRIES:
                    raise

    async def _running(self) -> PredictorProcess:
        async with self._starting:
            if self._process is None or not self._process.alive:
                self._process = await PredictorProcess.spawn(
                    self._settings, self._children, files=self._files
                )
                self._look_again_later()
            return self._process

    def _look_again_later(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        delay_s = self._used_at + self._settings.prediction_idle_timeout_s - monotonic()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(delay_s, 0.05), self._end_if_idle)

    def _end_if_idle(self) -> None:
        quiet_s = monotonic() - self._used_at
        if self._asking or quiet_s < self._settings.prediction_idle_timeout_s:
            self._look_again_later()
            return
        event(logger, logging.INFO, "predictor.dropped", idle_s=round(quiet_s))
        self._on_idle()
        self._dropping = asyncio.create_task(self._drop())

    async def _drop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            await process.close()
