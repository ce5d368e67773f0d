"""Sleep on Windows: powrprof is a double, as no machine of tests sleeps."""

from __future__ import annotations

import asyncio
import ctypes
import sys
import threading
from typing import Any

import pytest

from service.device.windows import suspend
from service.jobs.sleep import SleepWatch


class Powrprof:
    """A double of the library: calls back from a thread of its own, as Windows does."""

    def __init__(self, answer: int = 0) -> None:
        self.answer = answer
        self.is_open = False

    def PowerRegisterSuspendResumeNotification(  # noqa: N802, as it is called
        self, flags: int, subscription: Any, handle: Any
    ) -> int:
        assert flags == suspend.CALLBACK
        address = ctypes.addressof(subscription._obj)
        self.callback = suspend.Subscription.from_address(address).callback
        handle._obj.value = 7
        self.is_open = not self.answer
        return self.answer

    def PowerUnregisterSuspendResumeNotification(self, handle: Any) -> int:  # noqa: N802
        assert handle.value == 7
        self.is_open = False
        return 0

    async def send(self, what: int) -> None:
        thread = threading.Thread(target=self.callback, args=(None, what, None))
        thread.start()
        await asyncio.to_thread(thread.join)


class Daemon:
    """What sleep changes, in order."""

    def __init__(self) -> None:
        self.done: list[str] = []

    async def fall_asleep(self, *, asleep: bool) -> None:
        self.done.append("asleep" if asleep else "awake")

    async def rest(self) -> None:
        await asyncio.sleep(0)
        self.done.append("saved")


def test_windows_waits_until_the_job_is_saved_and_waking_is_seen() -> None:
    async def scenario() -> tuple[list[str], bool]:
        powrprof, daemon = Powrprof(), Daemon()
        watch = SleepWatch(daemon, daemon)  # type: ignore[arg-type]
        following = asyncio.create_task(watch.follow_windows(powrprof))
        await asyncio.sleep(0)
        await powrprof.send(suspend.SUSPEND)
        assert daemon.done == ["asleep", "saved"]
        await powrprof.send(0xA)  # PBT_APMPOWERSTATUSCHANGE
        await powrprof.send(suspend.RESUMED)
        following.cancel()
        await asyncio.wait([following])
        return daemon.done, powrprof.is_open

    assert asyncio.run(scenario()) == (["asleep", "saved", "awake"], False)


@pytest.mark.skipif(sys.platform != "win32", reason="only Windows has powrprof")
def test_powrprof_takes_the_callback_and_lets_it_go() -> None:
    suspend.SuspendNotices(lambda _: None, ctypes.windll.powrprof).close()


def test_a_windows_that_refuses_says_so() -> None:
    with pytest.raises(OSError, match="failed with 87"):
        suspend.SuspendNotices(lambda _: None, Powrprof(answer=87))
