"""Seconds since the last input in this process's session."""

from __future__ import annotations

import ctypes
import sys

TICKS = 2**32
"""Windows counts milliseconds in 32 bits: the count wraps every 49.7 days."""
AHEAD_MS = 60_000
"""A program that generates input sets its timestamp, possibly slightly in the future."""


class LastInputInfo(ctypes.Structure):
    """LASTINPUTINFO of winuser.h."""

    _fields_ = (("size", ctypes.c_uint32), ("time_ms", ctypes.c_uint32))
    size: int
    time_ms: int


def elapsed_s(now_ms: int, then_ms: int) -> float:
    """Seconds between two tick counts, the later first; 0 if the earlier is slightly ahead."""
    passed_ms = (now_ms - then_ms) % TICKS
    return 0.0 if passed_ms >= TICKS - AHEAD_MS else passed_ms / 1000


def seconds_since_input() -> float:
    """Seconds since the last input by keyboard, mouse or touch. Raises OSError."""
    if sys.platform != "win32":
        raise OSError("input is watched on Windows alone; elsewhere the daemon needs no helper")
    info = LastInputInfo(size=ctypes.sizeof(LastInputInfo))
    if not ctypes.windll.user32.GetLastInputInfo(ctypes.byref(info)):
        raise ctypes.WinError()
    return elapsed_s(ctypes.windll.kernel32.GetTickCount(), info.time_ms)
