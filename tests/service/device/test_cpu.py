from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from daemon_process import WINE
from support import wait_until

from service.device.linux.cpu import (
    CpuTimes,
    LinuxForeignCpu,
    ProcessTree,
    foreign_percent,
    parse_stat,
)
from service.device.psutil_sensors import PsutilForeignCpu
from service.device.reading import Moment

BURN = "while True: pass"
linux = pytest.mark.skipif(sys.platform != "linux", reason="reads Linux's /proc")


@pytest.fixture
def own_burner():
    """A child of ours that burns a processor."""
    process = subprocess.Popen([sys.executable, "-c", BURN])
    yield psutil.Process(process.pid)
    process.kill()
    process.wait()


@pytest.fixture
def foreign_burner():
    """A burner whose parent has ended: it is no descendant of ours."""
    started = subprocess.run(
        ["sh", "-c", f'{sys.executable} -c "{BURN}" >/dev/null 2>&1 & echo $!'],
        capture_output=True,
        text=True,
        check=True,
    )
    process = psutil.Process(int(started.stdout))
    yield process
    process.kill()


def used_s(process):
    times = process.cpu_times()
    return times.user + times.system


def ticks_per_s():
    return os.sysconf("SC_CLK_TCK")


def test_foreign_load_is_what_is_busy_and_not_ours():
    before = CpuTimes(total=1000, busy=500, own=100)
    after = CpuTimes(total=1200, busy=600, own=150)
    assert foreign_percent(before, after) == 25


def test_our_own_load_alone_is_no_foreign_load():
    assert foreign_percent(CpuTimes(0, 0, 0), CpuTimes(200, 100, 101)) == 0


def test_a_tree_that_lost_a_process_does_not_count_backwards():
    assert foreign_percent(CpuTimes(0, 0, 500), CpuTimes(200, 100, 10)) == 50


def test_a_command_may_hold_spaces_and_parentheses():
    content = b"42 (a) (b c) R 7 42 42 0 -1 4194304 1 2 3 4 10 20 30 40 20 0 1 0 99 0 0"
    process = parse_stat(content)
    assert (process.parent, process.ticks) == (7, 100)


@linux
def test_a_child_that_burns_is_ours(own_burner):
    tree = ProcessTree(Path("/proc"))
    before, used_before_s = tree.ticks(Moment.now()), used_s(own_burner)
    wait_until(lambda: used_s(own_burner) - used_before_s > 0.4, "the child to burn")
    used = (used_s(own_burner) - used_before_s) * ticks_per_s()
    assert tree.ticks(Moment.now()) - before >= 0.8 * used


@linux
def test_a_child_that_ended_stays_ours():
    tree = ProcessTree(Path("/proc"))
    before = tree.ticks(Moment.now())
    process = subprocess.Popen([sys.executable, "-c", BURN])
    burner = psutil.Process(process.pid)
    wait_until(lambda: used_s(burner) > 0.4, "the child to burn")
    process.kill()
    process.wait()
    assert tree.ticks(Moment.now()) - before >= 0.35 * ticks_per_s()


@linux
def test_a_stranger_that_burns_is_foreign(foreign_burner):
    sensor = LinuxForeignCpu(Path("/proc"), Moment.now())
    tree = ProcessTree(Path("/proc"))
    started_s, own_before = time.monotonic(), tree.ticks(Moment.now())
    used_before_s = used_s(foreign_burner)
    wait_until(lambda: used_s(foreign_burner) - used_before_s > 0.6, "the burner to burn")
    (reading,) = sensor.read(Moment.now())
    capacity_s = (time.monotonic() - started_s) * psutil.cpu_count()
    assert reading.value >= 0.7 * 100 * 0.6 / capacity_s
    own_s = (tree.ticks(Moment.now()) - own_before) / ticks_per_s()
    assert own_s < 0.5 * (used_s(foreign_burner) - used_before_s)


STAT = "cpu  {user} 0 {system} {idle} 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0"


def write_machine(tree, *, user, idle, own=0, child=0, stranger=0):
    def stat(pid, parent, ticks):
        return f"{pid} (x) S {parent} 0 0 0 0 0 0 0 0 0 {ticks} 0 0 0 20"

    root = tree(
        {
            "stat": STAT.format(user=user, system=0, idle=idle),
            "100/stat": stat(100, 1, own),
            "101/stat": stat(101, 100, child),
            "200/stat": stat(200, 1, stranger),
        },
        root="proc",
    )
    if not (root / "self").is_symlink():
        (root / "self").symlink_to("100")
    return root


@linux
def test_the_share_is_of_the_whole_machine(tree, clock):
    root = write_machine(tree, user=0, idle=0)
    sensor = LinuxForeignCpu(root, clock.now())
    write_machine(tree, user=600, idle=400, own=100, child=200, stranger=300)
    (reading,) = sensor.read(clock.advance(5))
    assert reading.value == 30
    assert reading.unit == "%"
    assert reading.source == str(root / "stat")


@linux
def test_the_first_reading_is_unknown_and_says_why(tree, clock):
    sensor = LinuxForeignCpu(write_machine(tree, user=0, idle=0), clock.now())
    (reading,) = sensor.read(clock.now())
    assert reading.value is None
    assert "this is the first" in reading.detail


@linux
def test_readings_in_quick_succession_keep_the_last_value(tree, clock):
    sensor = LinuxForeignCpu(write_machine(tree, user=0, idle=0), clock.now())
    write_machine(tree, user=50, idle=50)
    assert sensor.read(clock.advance(1))[0].value == 50
    write_machine(tree, user=51, idle=50)
    assert sensor.read(clock.advance(0.01))[0].value == 50


@linux
def test_a_reused_process_number_is_seen_within_a_minute(tree, clock):
    root = write_machine(tree, user=0, idle=0, stranger=0)
    processes = ProcessTree(root)
    assert processes.ticks(clock.now()) == 0
    (root / "200" / "stat").write_text("200 (x) S 100 0 0 0 0 0 0 0 0 0 7 0 0 0 20\n")
    assert processes.ticks(clock.advance(5)) == 0
    assert processes.ticks(clock.advance(60)) == 7


@linux
def test_without_a_proc_the_load_is_unknown(tmp_path, clock):
    (reading,) = LinuxForeignCpu(tmp_path, clock.now()).read(clock.now())
    assert reading.value is None
    assert "stat" in reading.detail


@pytest.mark.skipif(WINE, reason="Wine gives the caller's time for that of any process")
def test_psutil_measures_the_same_where_there_is_no_proc(own_burner, clock):
    sensor = PsutilForeignCpu()
    used_before_s = used_s(own_burner)
    wait_until(lambda: used_s(own_burner) - used_before_s > 0.6, "the burner to burn")
    (reading,) = sensor.read(clock.now())
    assert 0 <= reading.value <= 100
    assert sensor._own[own_burner.pid] >= used_before_s + 0.5
