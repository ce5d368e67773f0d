"""A job object of Windows: children end with the daemon, and share a limit of memory."""

from __future__ import annotations

import logging

import pywintypes
import win32api
import win32con
import win32job

from service.logs import event

logger = logging.getLogger(__name__)

LIMITS = win32job.JobObjectExtendedLimitInformation
ALWAYS = (
    win32job.JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
    | win32job.JOB_OBJECT_LIMIT_DIE_ON_UNHANDLED_EXCEPTION
)
"""Windows closes the job with the daemon, however that ends; who crashes opens no dialog."""


class WindowsJob:
    """A job object that lives as long as this."""

    def __init__(self) -> None:
        self._job = win32job.CreateJobObject(None, "")
        self.limit(None)

    def limit(self, memory_bytes: int | None) -> None:
        """What the members may commit together, None for no limit. Wine does not enforce it."""
        limits = win32job.QueryInformationJobObject(self._job, LIMITS)
        limits["JobMemoryLimit"] = memory_bytes or 0
        limits["BasicLimitInformation"]["LimitFlags"] = ALWAYS | (
            0 if memory_bytes is None else win32job.JOB_OBJECT_LIMIT_JOB_MEMORY
        )
        win32job.SetInformationJobObject(self._job, LIMITS, limits)

    def add(self, pid: int) -> None:
        """A process that has just started becomes a member."""
        access = win32con.PROCESS_SET_QUOTA | win32con.PROCESS_TERMINATE
        try:
            process = win32api.OpenProcess(access, False, pid)
            win32job.AssignProcessToJobObject(self._job, process)
        except pywintypes.error as error:  # it may have ended
            event(logger, logging.WARNING, "child.not_in_job", pid=pid, detail=error.strerror)
