"""A predictor process: started on demand, replaced after a crash, ended when idle."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from pathlib import Path

from service.errors import ChildDied
from service.logs import event
from service.prediction.frames import Frame
from service.prediction.process import NotStarted, PredictorProcess
from service.processes.children import Children
from service.settings import Settings

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
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._children = children
        self._files = files
        self._on_idle = on_idle
        self._monotonic = monotonic
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
            self._used_at = self._monotonic()
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
        delay_s = self._used_at + self._settings.prediction_idle_timeout_s - self._monotonic()
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(max(delay_s, 0.05), self._end_if_idle)

    def _end_if_idle(self) -> None:
        quiet_s = self._monotonic() - self._used_at
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
