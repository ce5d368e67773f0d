from __future__ import annotations

import ctypes
import os
import sys

import pytest

from service.device.login_sessions import Session
from service.device.windows import last_input
from service.device.windows import sessions as sessions_windows
from service.policy.device_monitor import platform_table


@pytest.mark.parametrize(
    ("now_ms", "then_ms", "seconds"),
    [
        (5000, 2000, 3.0),
        (1000, 2**32 - 1000, 2.0),
        (-1000, 2**32 - 4000, 3.0),
        (2**31 + 5, 2**31 - 5, 0.01),
        (2000, 2016, 0.0),
        (30 * 24 * 3600 * 1000, 0, 30 * 86400.0),
    ],
)
def test_ticks_wrap_around_after_49_days(now_ms, then_ms, seconds):
    assert last_input.elapsed_s(now_ms, then_ms) == seconds


def test_the_structures_have_the_sizes_that_windows_writes():
    assert ctypes.sizeof(last_input.LastInputInfo) == 8
    assert ctypes.sizeof(sessions_windows.SessionInfo) == 3 * ctypes.sizeof(ctypes.c_void_p)


def test_only_sessions_that_take_input_and_have_a_user_count(monkeypatch):
    listed = [(0, 4), (1, 1), (2, 0), (3, 4), (65536, 6)]
    users = {1: "", 2: "anna"}
    monkeypatch.setattr(sessions_windows, "_listed", lambda: listed)
    monkeypatch.setattr(sessions_windows, "_user_of", users.__getitem__)
    assert sessions_windows.WindowsSessions().sessions() == [Session(2, "anna")]


@pytest.mark.skipif(sys.platform == "win32", reason="Windows answers")
def test_elsewhere_windows_is_not_asked():
    table = sessions_windows.WindowsSessions()
    assert platform_table() is None
    for ask in (table.sessions, table.uptime_s, lambda: table.session_of(os.getpid())):
        with pytest.raises(OSError, match="not Windows"):
            ask()
    with pytest.raises(OSError, match="on Windows alone"):
        last_input.seconds_since_input()
