"""The daemon's end of the predictor process: sends questions, reads answers, ends it."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from pathlib import Path

from service.errors import ChildDied
from service.prediction.errors import PredictionTimeout
from service.prediction.frames import SIZES, Frame, decode, encode
from service.processes.children import Children
from service.processes.exits import ErrorTail, describe_exit
from service.settings import Settings
from storage.errors import in_words

BUFFER_BYTES = 2**20
GRACE_S = 2.0
"""How long the process may take to exit once its input is closed."""


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
            return await asyncio.wait_for(answer, timeout_s)
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
