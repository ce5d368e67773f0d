"""Windows' notifications before the device sleeps, and when it is awake again."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

SUSPEND, RESUMED = 0x4, 0x12
"""PBT_APMSUSPEND, and PBT_APMRESUMEAUTOMATIC, sent at every wake-up; winuser.h."""
CALLBACK = 2
"""DEVICE_NOTIFY_CALLBACK: no window is needed, as services have none."""
FUNCTION = getattr(ctypes, "WINFUNCTYPE", ctypes.CFUNCTYPE)
Callback = FUNCTION(ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_void_p)


class Subscription(ctypes.Structure):
    """DEVICE_NOTIFY_SUBSCRIBE_PARAMETERS of powrprof.h."""

    _fields_ = (("callback", Callback), ("context", ctypes.c_void_p))


class SuspendNotices:
    """PowerRegisterSuspendResumeNotification, until it is closed.

    told: called with True before sleep and with False after it, in a thread of Windows, which waits
    about two seconds for it to return. powrprof: the library of that name.
    """

    def __init__(self, told: Callable[[bool], None], powrprof: Any) -> None:
        self._powrprof = powrprof
        self._told = told
        self._handle = ctypes.c_void_p()
        # Windows keeps only the address.
        self._subscription = Subscription(Callback(self._called), None)
        failed = powrprof.PowerRegisterSuspendResumeNotification(
            CALLBACK, ctypes.byref(self._subscription), ctypes.byref(self._handle)
        )
        if failed:
            raise OSError(f"PowerRegisterSuspendResumeNotification failed with {failed}")

    def close(self) -> None:
        """Unregister."""
        self._powrprof.PowerUnregisterSuspendResumeNotification(self._handle)

    def _called(self, _context: int | None, what: int, _setting: int | None) -> int:
        if what in (SUSPEND, RESUMED):
            self._told(what == SUSPEND)
        return 0
