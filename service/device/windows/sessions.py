"""Sessions of Windows, from wtsapi32."""

from __future__ import annotations

import ctypes
import os
import sys

from service.device.login_sessions import Session
from service.device.windows.last_input import seconds_since_input

TAKE_INPUT = frozenset({0, 1})
"""WTSActive and WTSConnected, of WTS_CONNECTSTATE_CLASS; not WTSDisconnected, nor a listener."""
USER_NAME = 5
"""WTSUserName, of WTS_INFO_CLASS."""


class SessionInfo(ctypes.Structure):
    """WTS_SESSION_INFOW of wtsapi32.h."""

    _fields_ = (
        ("id", ctypes.c_uint32),
        ("station", ctypes.c_wchar_p),
        ("state", ctypes.c_int),
    )
    id: int
    state: int


class WindowsSessions:
    """The table of sessions. This process detects input only in its own."""

    def sessions(self) -> list[Session]:
        """All that accept input and have a logged-in user; the logon screen has none."""
        ids = [id_ for id_, state in _listed() if state in TAKE_INPUT]
        users = ((id_, _user_of(id_)) for id_ in ids)
        return [Session(id_, user) for id_, user in users if user]

    def session_of(self, pid: int) -> int:
        """The session of a process that we may query."""
        if sys.platform != "win32":
            raise OSError("this is not Windows")
        session_id = ctypes.c_uint32()
        if not ctypes.windll.kernel32.ProcessIdToSessionId(pid, ctypes.byref(session_id)):
            raise ctypes.WinError()
        return session_id.value

    def idle_s(self, session_id: int) -> float | None:
        """Of our own session; a service's session has no user, and is not listed."""
        return seconds_since_input() if session_id == self.session_of(os.getpid()) else None

    def uptime_s(self) -> float:
        """Including sleep, as in Python's monotonic clock on Windows."""
        if sys.platform != "win32":
            raise OSError("this is not Windows")
        uptime_ms = ctypes.windll.kernel32.GetTickCount64
        uptime_ms.restype = ctypes.c_uint64
        return float(uptime_ms() / 1000)


def _listed() -> list[tuple[int, int]]:
    """Id and state of every session."""
    if sys.platform != "win32":
        raise OSError("this is not Windows")
    api = ctypes.windll.wtsapi32
    entries, count = ctypes.POINTER(SessionInfo)(), ctypes.c_uint32()
    if not api.WTSEnumerateSessionsW(None, 0, 1, ctypes.byref(entries), ctypes.byref(count)):
        raise ctypes.WinError()
    try:
        return [(entries[i].id, entries[i].state) for i in range(count.value)]
    finally:
        api.WTSFreeMemory(entries)


def _user_of(session_id: int) -> str:
    """The name of the logged-in user, or empty."""
    if sys.platform != "win32":
        raise OSError("this is not Windows")
    api = ctypes.windll.wtsapi32
    name, size = ctypes.c_wchar_p(), ctypes.c_uint32()
    if not api.WTSQuerySessionInformationW(
        None, session_id, USER_NAME, ctypes.byref(name), ctypes.byref(size)
    ):
        raise ctypes.WinError()
    try:
        return name.value or ""
    finally:
        api.WTSFreeMemory(name)
