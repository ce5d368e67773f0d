"""Lowers the child's priority before it loads an engine, and checks its memory limit."""

from __future__ import annotations

import ctypes
import logging
import os
import sys
import time
from pathlib import Path

from service.processes import seccomp
from service.training.errors import OutOfMemory
from service.training.protocol.messages.shared import ResourceLimits

logger = logging.getLogger(__name__)

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
MIN_MEMORY_BYTES = 96 << 20
"""Interpreter, numpy and engine map 77 MiB before loading a model (measured, one thread).

With less, numpy's own library ends the process while it is imported.
"""
THIS_PROCESS, IDLE_IO_CLASS = 1, 3 << 13
"""IOPRIO_WHO_PROCESS and IOPRIO_CLASS_IDLE, in the form of ioprio_set(2)."""
AUTOGROUP = Path("/proc/self/autogroup")
AUTOGROUP_TRIES = 10
AUTOGROUP_PAUSE_S = 0.1
"""The kernel allows processes without CAP_SYS_ADMIN one change every tenth of a second."""


def apply_limits(limits: ResourceLimits) -> None:
    """Yield to the device's other work. Call before numpy and the engine are imported.

    Raises OutOfMemory if the parent has left no room for the engine itself.
    """
    limit_numpy()
    _lower_priority(limits.nice)
    limit_bytes = memory_limit_bytes()
    if limit_bytes is not None and limit_bytes < MIN_MEMORY_BYTES:
        raise OutOfMemory(
            f"{limit_bytes} bytes of memory are allowed; the engine needs at least"
            f" {MIN_MEMORY_BYTES}"
        )


def limit_numpy() -> None:
    """Give numpy's libraries one thread. Call before numpy is imported.

    The engine has threads of its own, and starting one more in OpenBLAS takes 20 ms, and 125 ms of
    processor time.
    """
    for name in THREAD_VARIABLES:
        os.environ[name] = "1"


def memory_limit_bytes() -> int | None:
    """Limit on this process's private memory, None for no limit; the parent sets it."""
    if sys.platform != "linux":
        return None
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_DATA)
    return None if soft == resource.RLIM_INFINITY else soft


def _lower_priority(nice: int) -> None:
    try:
        if sys.platform == "win32":
            _ask_psutil(nice)
        else:
            os.setpriority(os.PRIO_PROCESS, 0, max(nice, os.getpriority(os.PRIO_PROCESS, 0)))
            if sys.platform == "linux":
                _lower_io_class(nice)
                _lower_session(os.getpriority(os.PRIO_PROCESS, 0))
    except OSError as error:
        logger.warning("priority_not_lowered nice=%d error=%s", nice, error)


def _lower_io_class(nice: int) -> None:
    """Use the disk only when nobody else does. Raises OSError.

    The C library has no function for it; psutil does, but loading it takes 8 % of a child's start.
    """
    machine = os.uname().machine
    if not seccomp.is_known(machine):
        _ask_psutil(nice)
        return
    libc = ctypes.CDLL(None, use_errno=True)
    ioprio_set = seccomp.number_of(seccomp.IOPRIO_SET, machine)
    if libc.syscall(ioprio_set, THIS_PROCESS, 0, IDLE_IO_CLASS):
        number = ctypes.get_errno()
        raise OSError(number, f"ioprio_set: {os.strerror(number)}")


def _ask_psutil(nice: int) -> None:
    """The same on Windows, and on processors whose call number is not known. Raises OSError."""
    import psutil

    process = psutil.Process()
    try:
        if sys.platform == "win32":
            process.nice(
                psutil.BELOW_NORMAL_PRIORITY_CLASS if nice < 15 else psutil.IDLE_PRIORITY_CLASS
            )
            process.ionice(psutil.IOPRIO_VERYLOW)
        else:
            process.ionice(psutil.IOPRIO_CLASS_IDLE)
    except psutil.AccessDenied as error:
        raise PermissionError(str(error)) from error


def _lower_session(nice: int) -> None:
    """Start a new session for the child, and apply the niceness to it as well.

    Where the kernel groups processes by session, as on desktops, niceness only counts within a
    session, and every session gets the same share: sched(7), the autogroup feature. Raises OSError.
    """
    if os.getsid(0) != os.getpid():
        os.setsid()
    if not AUTOGROUP.exists():  # a kernel without the feature
        return
    for _ in range(AUTOGROUP_TRIES):
        try:
            AUTOGROUP.write_text(str(nice))
            return
        except BlockingIOError:
            time.sleep(AUTOGROUP_PAUSE_S)
    raise TimeoutError(f"{AUTOGROUP} is changed by others all the time")
