"""Distributes requests over a few processes, so that a quick model never waits for a slow one."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from msgspec import Struct, field

from service.errors import PredictionTimeout
from service.prediction.frames import Frame
from service.prediction.worker import Worker, within
from service.processes.children import Children
from service.settings import Settings
from storage.errors import Busy

LANES = 3
"""Number of lanes. The last is reserved for questions expected to be answered quickly, and all but
the first for files that have answered each time: one that once did not is no longer trusted, as its
duration may depend on what it is asked.
"""
QUICK_S = 0.2
"""Maximum duration of a quick answer."""
REMEMBERED = 4
"""Answers remembered per file, since a single one may be slow by chance."""
FILES_REMEMBERED = 64
"""Files whose answers are remembered, those asked last: each promotion brings another file."""
MAX_WAITING = 256
"""Maximum number of waiting questions; each holds its inputs in memory."""
DEPTH = 4
"""Questions of one model sent to a process ahead, so that it is never idle between them."""
PATIENCE_S = 0.1
"""How long a question waits for a running process before another process is started."""


class _Lane(Struct, eq=False):
    """A worker and the model it serves. asking: number of open questions."""

    worker: Worker
    model: str | None = None
    asking: int = 0


class _Turn(Struct, eq=False):
    """A question that waits for one of the first `lanes`.

    may_start: whether a process may be started for it.
    """

    model: str
    lanes: int
    may_start: bool = False
    granted: asyncio.Future[_Lane] = field(default_factory=asyncio.Future)


class Lanes:
    """Sends questions in order of arrival, those of one model to one lane at a time.

    So a slow model takes one lane, however many questions it has; however many models are slow, one
    lane is left for quick ones; and those that do not answer take one together.
    Belongs to the event loop.
    on_idle: called when the last process ends because it is idle.
    """

    def __init__(
        self,
        settings: Settings,
        children: Children,
        *,
        files: Path,
        on_idle: Callable[[], None],
    ) -> None:
        self._timeout_s = settings.prediction_timeout_s
        self._on_idle = on_idle
        self._lanes = [
            _Lane(Worker(settings, children, files=files, on_idle=self._after_idle))
            for _ in range(LANES)
        ]
        self._turns: deque[_Turn] = deque()
        self._answering: set[asyncio.Task[Frame]] = set()
        self._took: dict[str, deque[tuple[float, int]]] = {}
        """File → seconds and bytes of its last questions that ran alone; of one that did not answer
        in time, nothing, and no more is added.
        """

    @property
    def pids(self) -> list[int]:
        """Ids of the running processes."""
        return [lane.worker.pid for lane in self._lanes if lane.worker.pid is not None]

    @property
    def waiting(self) -> int:
        """How many questions have no answer yet."""
        return len(self._turns) + sum(lane.asking for lane in self._lanes)

    async def ask(self, model: str, question: Frame) -> Frame:
        """The answer, which may be an error. Raises Busy, PredictionTimeout, ChildDied."""
        may_start = True
        while True:
            turn = _Turn(model, lanes=self._open_to(question) if may_start else LANES)
            lane = await self._turn(turn, may_start=may_start)
            is_new = lane.worker.pid is None
            answering = asyncio.create_task(self._answer(lane, question))
            self._answering.add(answering)
            answering.add_done_callback(self._answered)
            try:
                # If the caller gives up, the process still works on the request: not free.
                return await asyncio.shield(answering)
            except Busy:
                if not is_new or not self.pids:
                    raise
                may_start = False  # there is no room for another process

    async def tell_all(self, statement: Frame) -> None:
        """Send a frame to every running process."""
        workers = [lane.worker for lane in self._lanes if lane.worker.pid is not None]
        await asyncio.gather(*(worker.ask(statement) for worker in workers))

    async def stop(self) -> None:
        """End the processes, without waiting for their work."""
        for answering in self._answering:
            answering.cancel()
        await asyncio.gather(*(lane.worker.stop() for lane in self._lanes))

    async def _answer(self, lane: _Lane, question: Frame) -> Frame:
        alone, began = lane.asking == 1, time.monotonic()
        try:
            answer = await lane.worker.ask(question)
            if alone and question.tensors:
                self._remember(question, time.monotonic() - began)
            return answer
        except PredictionTimeout:
            self._keep(_file(question), deque(maxlen=0))
            raise
        finally:
            lane.asking -= 1
            self._grant()

    def _answered(self, answering: asyncio.Task[Frame]) -> None:
        self._answering.discard(answering)
        if not answering.cancelled():
            answering.exception()  # the caller may be gone

    def _remember(self, question: Frame, seconds: float) -> None:
        took = self._took.get(_file(question), deque(maxlen=REMEMBERED))
        took.append((seconds, _size_bytes(question)))
        self._keep(_file(question), took)

    def _keep(self, file: str, took: deque[tuple[float, int]]) -> None:
        self._took.pop(file, None)
        self._took[file] = took
        while len(self._took) > FILES_REMEMBERED:
            self._took.pop(next(iter(self._took)))

    def _open_to(self, question: Frame) -> int:
        """How many lanes, by how soon the answer is expected; larger questions take longer."""
        size = _size_bytes(question)
        took = self._took.get(_file(question))
        if took is not None and took.maxlen == 0:
            return 1
        scaled = (seconds * max(1, size / max(1, known)) for seconds, known in took or ())
        return LANES if any(waited <= QUICK_S for waited in scaled) else LANES - 1

    async def _turn(self, turn: _Turn, *, may_start: bool) -> _Lane:
        if self.waiting >= MAX_WAITING:
            raise Busy(f"{MAX_WAITING} predictions are waiting already; try again in a moment")
        self._turns.append(turn)
        self._grant()
        patience = asyncio.get_running_loop().call_later(
            PATIENCE_S if may_start else self._timeout_s, self._lose_patience, turn
        )
        try:
            return await within(turn.granted, self._timeout_s)
        except asyncio.TimeoutError:
            raise PredictionTimeout(
                f"no process was free within {self._timeout_s:g} s (HONED_PREDICTION_TIMEOUT_S)"
            ) from None
        except asyncio.CancelledError:
            if turn.granted.done() and not turn.granted.cancelled():
                turn.granted.result().asking -= 1
            raise
        finally:
            patience.cancel()
            if turn in self._turns:  # it was cancelled, or timed out
                self._turns.remove(turn)
            self._grant()

    def _lose_patience(self, turn: _Turn) -> None:
        turn.may_start = True
        self._grant()

    def _grant(self) -> None:
        """Assign lanes to waiting questions, first come, first served."""
        overtaken = False
        for turn in [turn for turn in self._turns if not turn.granted.done()]:
            lane = self._lane_for(turn, alone=not overtaken)
            if lane is None:
                overtaken = True
                continue
            lane.model, lane.asking = turn.model, lane.asking + 1
            self._turns.remove(turn)
            turn.granted.set_result(lane)

    def _lane_for(self, turn: _Turn, *, alone: bool) -> _Lane | None:
        """alone: no question has waited longer, so the model may continue in the lane it has."""
        for lane in self._lanes:
            if lane.asking and lane.model == turn.model:
                return lane if alone and lane.asking < DEPTH else None
        free = [lane for lane in self._lanes[: turn.lanes] if not lane.asking]
        running = [lane for lane in free if lane.worker.pid is not None]
        if not running and (turn.may_start or not any(lane.asking for lane in self._lanes)):
            return next(iter(free), None)
        return min(running, key=lambda lane: lane.model != turn.model, default=None)

    def _after_idle(self) -> None:
        """Called while the idle worker still counts as running."""
        if len(self.pids) <= 1:
            self._took.clear()
            self._on_idle()


def _file(question: Frame) -> str:
    return str(question.header["file"]["sha256"])


def _size_bytes(question: Frame) -> int:
    return sum(tensor.nbytes for tensor in question.tensors.values())
