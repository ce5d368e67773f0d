"""The machine's memory and the limits of cgroups, by files that the test writes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from service.device.memory import LinuxMemory, usable_memory_bytes, usable_processors
from service.device.reading import Moment

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc and /sys")
GIB = 2**30


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """8 GiB, and a process in the group /app.slice/honed of both hierarchies."""
    write(tmp_path / "proc/meminfo", f"MemTotal:       {8 * 2**20} kB\nMemFree: 1 kB\n")
    groups = "4:memory,hugetlb:/app.slice/honed\n3:cpu:/\n0::/app.slice/honed\n"
    write(tmp_path / "proc/self/cgroup", groups)
    return tmp_path


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def usable(machine: Path) -> int | None:
    return usable_memory_bytes(procfs=machine / "proc", sysfs=machine / "sys")


def test_without_a_limit_it_is_what_the_machine_has(machine: Path) -> None:
    write(machine / "sys/fs/cgroup/app.slice/honed/memory.max", "max\n")

    assert usable(machine) == 8 * GIB


@pytest.mark.parametrize("group", ["app.slice/honed", "app.slice", "."])
def test_the_limit_of_any_group_around_the_process_counts(machine: Path, group: str) -> None:
    write(machine / "sys/fs/cgroup" / group / "memory.max", f"{2 * GIB}\n")

    assert usable(machine) == 2 * GIB


def test_the_first_version_of_cgroups_counts_too(machine: Path) -> None:
    limit = machine / "sys/fs/cgroup/memory/app.slice/honed/memory.limit_in_bytes"
    write(limit, f"{3 * GIB}\n")

    assert usable(machine) == 3 * GIB


def test_a_limit_above_the_machines_memory_is_none(machine: Path) -> None:
    write(machine / "sys/fs/cgroup/memory.max", f"{64 * GIB}\n")

    assert usable(machine) == 8 * GIB


def test_a_device_that_tells_nothing_has_an_unknown_size(tmp_path: Path) -> None:
    assert usable(tmp_path) is None


@pytest.mark.parametrize("total", ["", "MemTotal: many kB\n", "garbage"])
def test_files_of_another_form_are_as_if_absent(machine: Path, total: str) -> None:
    write(machine / "proc/meminfo", total)
    write(machine / "proc/self/cgroup", "garbage\n0:\n0::/app.slice\n")
    write(machine / "sys/fs/cgroup/app.slice/memory.max", f"{2 * GIB}\n")

    assert usable(machine) == 2 * GIB


def test_this_machine_tells_its_size() -> None:
    size = usable_memory_bytes()
    assert size is not None
    assert size > 2**27


def available(machine: Path) -> object:
    (reading,) = LinuxMemory(machine / "proc", machine / "sys").read(Moment.now())
    return reading.value, Path(reading.source).name


@pytest.mark.parametrize(
    ("folder", "limit", "used"),
    [
        ("app.slice", "memory.max", "memory.current"),
        ("app.slice/honed", "memory.high", "memory.current"),
        ("memory/app.slice", "memory.limit_in_bytes", "memory.usage_in_bytes"),
    ],
)
def test_no_more_is_available_than_a_group_has_left(
    machine: Path, folder: str, limit: str, used: str
) -> None:
    write(machine / "proc/meminfo", f"MemAvailable: {4 * 2**20} kB\n")
    assert available(machine) == (4 * GIB, "meminfo")
    group = machine / "sys/fs/cgroup" / folder
    write(group / limit, f"{2 * GIB}\n")
    write(group / used, f"{GIB}\n")
    assert available(machine) == (GIB, group.name)
    # Files that the group has read can be dropped.
    write(group / "memory.stat", f"anon 5\ninactive_file {GIB // 4}\nactive_file {GIB // 4}\n")
    assert available(machine) == (GIB * 3 // 2, group.name)
    write(group / used, f"{3 * GIB}\n")
    assert available(machine) == (0, group.name)


def test_files_of_the_groups_inside_can_be_dropped_too(machine: Path) -> None:
    write(machine / "proc/meminfo", f"MemAvailable: {4 * 2**20} kB\n")
    group = machine / "sys/fs/cgroup/memory/app.slice"
    write(group / "memory.limit_in_bytes", f"{2 * GIB}\n")
    write(group / "memory.usage_in_bytes", f"{2 * GIB}\n")
    write(group / "memory.stat", f"inactive_file 0\ntotal_inactive_file {GIB}\n")

    assert available(machine) == (GIB, "app.slice")


def test_a_group_that_cannot_be_looked_at_limits_nothing(machine: Path) -> None:
    write(machine / "proc/self/cgroup", f"0::/app.slice/{'long' * 100}\n")
    write(machine / "sys/fs/cgroup/app.slice/memory.max", f"{2 * GIB}\n")

    assert usable(machine) == 2 * GIB


def processors(machine: Path) -> int:
    return usable_processors(procfs=machine / "proc", sysfs=machine / "sys")


@pytest.mark.parametrize(("quota", "count"), [("max", 8), (50_000, 1), (150_000, 2), (900_000, 8)])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_quota_of_a_group_counts_as_so_many_processors(
    machine: Path, monkeypatch: pytest.MonkeyPatch, quota: object, count: int, is_first: bool
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)))
    if is_first:
        group = machine / "sys/fs/cgroup/cpu"
        write(group / "cpu.cfs_quota_us", f"{-1 if quota == 'max' else quota}\n")
        write(group / "cpu.cfs_period_us", "100000\n")
    else:
        write(machine / "sys/fs/cgroup/app.slice/honed/cpu.max", f"{quota} 100000\n")
    assert processors(machine) == count


def test_a_processor_that_the_process_may_not_run_on_does_not_count(tmp_path: Path) -> None:
    assert processors(tmp_path) == len(os.sched_getaffinity(0))
