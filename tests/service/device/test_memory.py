"""The machine's memory and the limits of cgroups, by files that the test writes."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from service.device.memory import usable_memory_bytes

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
