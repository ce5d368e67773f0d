"""One cap on memory, shared out among real processes."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from daemon_process import WINE
from hypothesis import given
from hypothesis import strategies as st
from support import DEADLINE_S

from service.processes.memory import MIN_SHARE_BYTES, SharedMemoryCap, shares

GIB = 2**30
MIB = 2**20
linux = pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA is Linux's")
windows = pytest.mark.skipif(sys.platform != "win32", reason="job objects are of Windows")


@given(st.dictionaries(st.integers(1, 9), st.integers(MIN_SHARE_BYTES, 2 * GIB)), st.integers(0, 9))
def test_the_shares_never_exceed_what_is_used_or_the_cap(
    used: dict[int, int], cap_gib: int
) -> None:
    cap_bytes = cap_gib * GIB
    parts = shares(used, cap_bytes)

    assert parts.keys() == used.keys()
    assert sum(parts.values()) <= max(cap_bytes, sum(used.values()))
    assert all(parts[pid] >= taken for pid, taken in used.items())


def test_what_nobody_has_is_shared_equally() -> None:
    assert shares({1: 300 * MIB, 2: 200 * MIB}, 700 * MIB) == {1: 400 * MIB, 2: 300 * MIB}


def test_even_under_a_cap_that_is_used_up_a_child_can_start() -> None:
    assert shares({1: GIB, 2: MIB}, GIB)[2] == MIN_SHARE_BYTES


@pytest.fixture
def processes() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Two interpreters that wait, and take as many MiB as each line of their input says."""
    script = "import sys\nheld = []\nfor line in sys.stdin:\n    try:\n"
    script += "        held.append(bytearray(int(line) << 20)); print('ok', flush=True)\n"
    script += "    except MemoryError:\n        print('no', flush=True)\n"
    pipe = subprocess.PIPE
    command = [sys.executable, "-c", script]
    started = [subprocess.Popen(command, stdin=pipe, stdout=pipe) for _ in range(2)]
    for process in started:
        assert take(process, 0) == b"ok"
    yield started
    for process in started:
        process.communicate()


def take(process: subprocess.Popen[bytes], mib: int) -> bytes:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{mib}\n".encode())
    process.stdin.flush()
    return process.stdout.readline().strip()


@linux
def test_living_processes_stay_within_the_cap_together(
    processes: list[subprocess.Popen[bytes]],
) -> None:
    first, second = processes
    cap = SharedMemoryCap(1000 * MIB)
    cap.add(first.pid)
    assert take(first, 600) == b"ok"
    cap.add(second.pid)

    assert take(second, 600) == b"no"
    assert take(first, 350) == b"no"
    assert take(second, 100) == b"ok"
    assert 0 < (cap.free_bytes or 0) < 300 * MIB


@linux
def test_the_end_of_one_frees_its_share_for_the_other(
    processes: list[subprocess.Popen[bytes]],
) -> None:
    first, second = processes
    cap = SharedMemoryCap(1000 * MIB)
    cap.add(first.pid)
    cap.add(second.pid)
    assert take(first, 800) == b"no"

    second.communicate()
    cap.remove(second.pid)

    assert take(first, 800) == b"ok"


@windows
@pytest.mark.skipif(WINE, reason="Wine takes the limit of a job object and ignores it")
def test_members_of_a_job_object_stay_within_the_cap_together(
    processes: list[subprocess.Popen[bytes]],
) -> None:
    first, second = processes
    cap = SharedMemoryCap(1000 * MIB)
    cap.add(first.pid)
    cap.add(second.pid)
    assert take(first, 600) == b"ok"
    assert take(second, 600) == b"no"

    first.communicate()

    assert take(second, 600) == b"ok"


@windows
def test_members_of_a_job_object_end_with_it(processes: list[subprocess.Popen[bytes]]) -> None:
    cap = SharedMemoryCap(1000 * MIB)
    for process in processes:
        cap.add(process.pid)

    del cap

    for process in processes:
        process.wait(DEADLINE_S)


@linux
def test_without_a_cap_nothing_is_limited(processes: list[subprocess.Popen[bytes]]) -> None:
    first, _ = processes
    cap = SharedMemoryCap(200 * MIB)
    cap.add(first.pid)
    assert take(first, 300) == b"no"

    cap.change(None)

    assert take(first, 300) == b"ok"
    assert cap.free_bytes is None
