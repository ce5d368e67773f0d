"""Saves the running job before the device sleeps, and judges again when it wakes up."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import sys
from typing import Any

from service.device.linux.sleep_signals import SleepSignals
from service.device.windows.suspend import SuspendNotices
from service.jobs.scheduler import Scheduler
from service.logs import event
from service.policy.device_monitor import DeviceMonitor
from storage.errors import in_words

logger = logging.getLogger(__name__)

DELAY_S = 4.5
"""Logind waits five seconds by default (InhibitDelayMaxSec in logind.conf)."""
WINDOWS_DELAY_S = 1.8
"""Windows waits about two seconds (PBT_APMSUSPEND)."""
RETRY_S = 60.0


class SleepWatch:
    """Follows logind, or Windows. Without them, a sleep is only noticed afterwards."""

    def __init__(self, monitor: DeviceMonitor, scheduler: Scheduler) -> None:
        self._monitor = monitor
        self._scheduler = scheduler
        self._is_asleep = False

    async def run(self) -> None:
        """Follow the system until cancelled; without logind, look for it now and then."""
        if sys.platform == "win32":
            try:
                await self.follow_windows(ctypes.windll.powrprof)
            except OSError as error:
                _not_told(in_words(error))
        told = ""
        while sys.platform == "linux":
            try:
                await self._follow()
            except OSError as error:
                if in_words(error) != told:
                    told = in_words(error)
                    _not_told(f"logind cannot be asked: {told}")
            await self._wake_up()
            await asyncio.sleep(RETRY_S)

    async def follow_windows(self, powrprof: Any) -> None:
        """Until cancelled. powrprof: the library of that name."""
        loop = asyncio.get_running_loop()

        def told(asleep: bool) -> None:
            work = self._fall_asleep(WINDOWS_DELAY_S) if asleep else self._wake_up()
            asyncio.run_coroutine_threadsafe(work, loop).result(2 * WINDOWS_DELAY_S)

        notices = SuspendNotices(told, powrprof)
        try:
            await asyncio.Event().wait()
        finally:
            notices.close()

    async def _follow(self) -> None:
        signals = await asyncio.to_thread(SleepSignals)
        loop = asyncio.get_running_loop()
        readable = asyncio.Event()
        loop.add_reader(signals.fileno(), readable.set)
        try:
            while True:
                await readable.wait()
                readable.clear()
                for about_to_sleep in signals.poll():
                    if about_to_sleep:
                        await self._fall_asleep(DELAY_S)
                        signals.release()
                    else:
                        await asyncio.to_thread(signals.delay)
                        await self._wake_up()
        finally:
            loop.remove_reader(signals.fileno())
            signals.close()

    async def _fall_asleep(self, delay_s: float) -> None:
        event(logger, logging.INFO, "device.falls_asleep")
        self._is_asleep = True
        try:
            await asyncio.wait_for(self._save(), delay_s)
        except asyncio.TimeoutError:
            event(logger, logging.WARNING, "sleep.not_saved", after_s=delay_s)

    async def _save(self) -> None:
        await self._monitor.fall_asleep(asleep=True)
        await self._scheduler.rest()

    async def _wake_up(self) -> None:
        if self._is_asleep:
            self._is_asleep = False
            event(logger, logging.INFO, "device.woke_up")
            await self._monitor.fall_asleep(asleep=False)


def _not_told(why: str) -> None:
    event(logger, logging.INFO, "sleep.not_told", detail=why)
