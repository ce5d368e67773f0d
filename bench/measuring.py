"""What several benchmarks do alike: time their work, and start programs that answer HTTP."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Callable

import httpx
import psutil


def seconds(work: Callable[[], object]) -> float:
    """How long it takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def milliseconds(work: Callable[[], object], rounds: int) -> list[float]:
    """How long it takes each time."""
    return [1000 * seconds(work) for _ in range(rounds)]


def cpu_s(process: psutil.Process) -> float:
    """Processor time that it has taken."""
    times = process.cpu_times()
    return float(times.user + times.system)


def free_port() -> int:
    """One of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def status_of(process: subprocess.Popen[bytes], url: str) -> int | None:
    """The status of what a program answers, None before it listens. It must not end."""
    assert process.poll() is None, f"{process.args} has ended: exit code {process.returncode}"
    try:
        return httpx.get(url, trust_env=False).status_code
    except httpx.TransportError:
        return None
