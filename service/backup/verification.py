"""Slowly reads all stored data and compares it with its digests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from msgspec import Struct
from msgspec.structs import replace

from service.logs import event
from service.policy.device_monitor import DeviceMonitor
from storage.database.codec import utc_now
from storage.errors import HoneError
from storage.store import Store

logger = logging.getLogger(__name__)

DUE = timedelta(days=7)
BYTES_PER_S = 16 * 2**20
"""Rate limit, so that other programs keep the disk and its cache."""
BUG = "this is a bug in the daemon; its log has the traceback"


class VerificationProgress(Struct, frozen=True):
    """Progress of the current verification, or of the last one since the daemon started.

    total_bytes: None until it has begun. error: why it ended early.
    """

    running: bool = False
    read_bytes: int = 0
    total_bytes: int | None = None
    error: str | None = None


class Verifier:
    """Reads once a week while the policy would let a job train, or at once on request.

    Belongs to the event loop.
    """

    def __init__(
        self,
        store: Store,
        monitor: DeviceMonitor,
        *,
        now: Callable[[], datetime] = utc_now,
        bytes_per_s: float = BYTES_PER_S,
    ) -> None:
        self._store = store
        self._monitor = monitor
        self._now = now
        self._bytes_per_s = bytes_per_s
        self._task: asyncio.Task[None] | None = None
        self.progress = VerificationProgress()

    def begin(self) -> None:
        """Start a verification unless one is running; stopping the daemon cuts it short."""
        if self._task is None or self._task.done():
            self.progress = VerificationProgress(running=True)
            self._task = asyncio.create_task(self._read_slowly())
            self._task.add_done_callback(self._ended)

    async def run_if_due(self) -> None:
        """Verify everything if the last time was a week ago and the device is idle.

        A last time in the future was noted by a clock that ran ahead, and does not count.
        """
        last = await asyncio.to_thread(self._store.verification.last)
        if last is not None and timedelta() <= self._now() - last < DUE:
            return
        if (await self._monitor.observe()).verdict.eligible:
            self.begin()
            assert self._task is not None
            await asyncio.wait({self._task})

    async def stop(self) -> None:
        """Cut it short; it restarts within an hour of the next start."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _ended(self, task: asyncio.Task[None]) -> None:
        """Log how it ended, and keep the result for those who ask."""
        self.progress = replace(self.progress, running=False)
        if task.cancelled():
            return
        error = task.exception()
        if error is None:
            size_bytes = self.progress.read_bytes
            event(logger, logging.INFO, "verification.done", size_bytes=size_bytes)
        elif isinstance(error, HoneError):
            self.progress = replace(self.progress, error=error.detail)
            event(logger, logging.WARNING, "verification.failed", detail=error.detail)
        else:
            self.progress = replace(self.progress, error=BUG)
            logger.error("verification.failed", exc_info=error)

    async def _read_slowly(self) -> None:
        verification = self._store.verification
        total = await asyncio.to_thread(verification.size_bytes)
        self.progress = replace(self.progress, total_bytes=total)
        steps = verification.steps()
        while (size_bytes := await asyncio.to_thread(next, steps, None)) is not None:
            read = self.progress.read_bytes + size_bytes
            self.progress = replace(self.progress, read_bytes=read)
            await asyncio.sleep(size_bytes / self._bytes_per_s)
        # First: whoever hears the event asks for the progress.
        self.progress = replace(self.progress, running=False)
        await asyncio.to_thread(verification.record, self.progress.read_bytes)
