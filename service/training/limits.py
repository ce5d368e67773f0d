"""What the child gives up before it loads an engine: priority, threads and memory."""

from __future__ import annotations

import logging
import os
import sys
import time
from pathlib import Path

import psutil

from service.training.errors import OutOfMemory
from service.training.protocol.messages.shared import Limits

logger = logging.getLogger(__name__)

THREAD_VARIABLES = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
MIN_MEMORY_BYTES = 96 << 20
"""Interpreter, numpy and engine map 77 MiB before there is a model (measured, one thread).

Below that numpy's own library ends the process while it is imported.
"""
AUTOGROUP = Path("/proc/self/autogroup")
AUTOGROUP_TRIES = 10
AUTOGROUP_PAUSE_S = 0.1
"""The kernel takes one change in a tenth of a second from processes without CAP_SYS_ADMIN."""


def apply_limits(limits: Limits, *, threads: int) -> None:
    """Step back behind the device's other work. Call before numpy and the engine are imported.

    memory_bytes is enforced where RLIMIT_DATA counts private mappings (Linux ≥ 4.7); files that
    are mapped read-only, as packs are, do not count. Elsewhere it is the parent's to watch.
    Raises OutOfMemory if the limit leaves no room for the engine itself.
    """
    for name in THREAD_VARIABLES:
        os.environ[name] = str(threads)
    _lower_priority(limits.nice)
    if limits.memory_bytes is not None and sys.platform == "linux":
        _limit_memory(limits.memory_bytes)


def _lower_priority(nice: int) -> None:
    process = psutil.Process()
    try:
        if sys.platform == "win32":
            process.nice(
                psutil.BELOW_NORMAL_PRIORITY_CLASS if nice < 15 else psutil.IDLE_PRIORITY_CLASS
            )
            process.ionice(psutil.IOPRIO_VERYLOW)
        else:
            process.nice(max(nice, process.nice()))
            if sys.platform == "linux":
                process.ionice(psutil.IOPRIO_CLASS_IDLE)
                _lower_session(process.nice())
    except (psutil.AccessDenied, OSError) as error:
        logger.warning("priority_not_lowered nice=%d error=%s", nice, error)


def _lower_session(nice: int) -> None:
    """Give the child a session of its own, and that the niceness too.

    Where the kernel groups processes by session, as desktops have it, niceness counts within a
    session only, and each session gets the same share: sched(7), the autogroup feature. Raises
    OSError.
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


def _limit_memory(memory_bytes: int) -> None:
    import resource

    if memory_bytes < MIN_MEMORY_BYTES:
        raise OutOfMemory(
            f"memory_bytes is {memory_bytes}; the engine needs at least {MIN_MEMORY_BYTES}"
        )
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = memory_bytes if hard == resource.RLIM_INFINITY else min(memory_bytes, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))
