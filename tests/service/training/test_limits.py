from __future__ import annotations

import json
import platform
import subprocess
import sys
from typing import Any

import psutil
import pytest
from support import DEADLINE_S

from service.processes.seccomp import is_known
from service.training.protocol.messages.shared import ResourceLimits

PROGRAM = """
import json, os, sys
from service.training.limits import AUTOGROUP, apply_limits
from service.training.protocol.messages.shared import ResourceLimits
apply_limits({limits!r})
early = {{"numpy", "onnxruntime", "psutil"}} & set(sys.modules)
assert early <= {early!r}, early
import numpy, psutil
process = psutil.Process()
report = {{"nice": process.nice(), "threads": process.num_threads()}}
if sys.platform == "linux":
    report["ionice"] = int(process.ionice().ioclass)
    report["session"] = os.getsid(0) == os.getpid()
    report["autogroup"] = AUTOGROUP.read_text() if AUTOGROUP.exists() else None
print(json.dumps(report))
"""


def report(limits: ResourceLimits) -> dict[str, Any]:
    numbered = sys.platform == "linux" and is_known(platform.machine())
    program = PROGRAM.format(limits=limits, early=set() if numbered else {"psutil"})
    command = [sys.executable, "-c", program]
    run = subprocess.run(command, capture_output=True, check=True, timeout=DEADLINE_S)
    result: dict[str, Any] = json.loads(run.stdout)
    return result


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has priority classes")
def test_the_child_steps_back_before_it_loads_an_engine() -> None:
    ours = psutil.Process().nice()
    assert report(ResourceLimits(nice=11))["nice"] == max(11, ours)
    # A daemon that runs at a low priority itself must not make the child ask for a higher one.
    assert report(ResourceLimits(nice=0))["nice"] == max(0, ours)


def test_numpy_and_its_libraries_start_no_threads() -> None:
    assert report(ResourceLimits(threads=3))["threads"] == 1


@pytest.mark.skipif(sys.platform != "linux", reason="I/O classes are Linux's")
def test_the_disk_is_used_when_nobody_else_does() -> None:
    assert report(ResourceLimits())["ionice"] == int(psutil.IOPRIO_CLASS_IDLE)


@pytest.mark.skipif(sys.platform != "linux", reason="autogroups are Linux's")
def test_niceness_counts_against_the_sessions_of_people_too() -> None:
    """Niceness alone counts within a session, and each session would get the same share."""
    ours = psutil.Process().nice()
    first, second = report(ResourceLimits(nice=10)), report(ResourceLimits(nice=15))
    assert first["session"]
    if first["autogroup"] is None:
        pytest.skip("this kernel does not group by session")
    nice = [each["autogroup"].split(" nice ")[1].strip() for each in (first, second)]
    assert nice == [str(max(10, ours)), str(max(15, ours))]
    assert first["autogroup"] != second["autogroup"]
