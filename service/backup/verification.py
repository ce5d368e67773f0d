"""Once a week the daemon reads all that it keeps, slowly, and compares it with its digests."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from service.logs import event
from service.policy.device_monitor import DeviceMonitor
from storage.database.codec import utc_now
from storage.errors import HoneError
from storage.store import Store

logger = logging.getLogger(__name__)

DUE = timedelta(days=7)
BYTES_PER_S = 16 * 2**20
"""So that neither the disk nor its cache is taken from others."""


class WeeklyVerification:
    """Reads while the policy would let a job train. Belongs to the event loop."""

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

    async def run_if_due(self) -> None:
        """Verify everything if the last time is a week ago and the device is free.

        One that a stop cuts short begins again after the next start.
        """
        last = await asyncio.to_thread(self._store.integrity.last_verified)
        if last is not None and self._now() - last < DUE:
            return
        if not (await self._monitor.look()).verdict.eligible:
            return
        try:
            size_bytes = await self._read(self._store.integrity.verify_files())
            for model_id in await asyncio.to_thread(self._store.integrity.model_ids):
                size_bytes += await self._read(self._store.integrity.verify_samples(model_id))
            await asyncio.to_thread(self._store.integrity.note_verified, size_bytes)
        except HoneError as error:
            event(logger, logging.WARNING, "verification.failed", detail=error.detail)
        else:
            event(logger, logging.INFO, "verification.done", size_bytes=size_bytes)

    async def _read(self, steps: Iterator[int]) -> int:
        """How many bytes were read."""
        total = 0
        while (size_bytes := await asyncio.to_thread(next, steps, None)) is not None:
            total += size_bytes
            await asyncio.sleep(size_bytes / self._bytes_per_s)
        return total
