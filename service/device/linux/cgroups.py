"""The control groups around this process, whose limits count beside the machine's."""

from __future__ import annotations

import os
from pathlib import Path, PurePosixPath

from service.device.linux.files import read_attribute, read_int

NO_LIMIT = 2**62
"""The first version of cgroups tells a number above this one instead."""


def groups(controller: str, *, procfs: Path, sysfs: Path) -> list[Path]:
    """The folders of the process's own group and all its parents, in both versions of cgroups.

    A container may show the path of the host here and mount its own group at the root: what is not
    there is left out. Source: cgroups(7), "/proc/pid/cgroup".
    """
    found: list[Path] = []
    for line in (read_attribute(str(procfs / "self" / "cgroup")) or "").splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        if controllers and controller not in controllers.split(","):
            continue
        root = sysfs / "fs" / "cgroup" / (controller if controllers else "")
        group = PurePosixPath(path.lstrip("/"))
        # Not `Path.is_dir`, which raises where this process may not look.
        found += filter(os.path.isdir, (root / around for around in (group, *group.parents)))
    return found


def memory_limits(group: Path) -> list[int]:
    """Bytes that the group may have; none if nothing limits it.

    Source: the kernel's cgroup-v2.rst, "memory.high" and "memory.max", and cgroup-v1/memory.rst.
    """
    names = ("memory.high", "memory.max", "memory.limit_in_bytes")
    limits = (read_int(f"{group}/{name}") for name in names)
    return [limit for limit in limits if limit is not None and limit < NO_LIMIT]


def processor_quota(group: Path) -> int | None:
    """Processors that the group may fill, rounded up; None if nothing limits them.

    Source: cgroup-v2.rst, "cpu.max", and the kernel's sched-bwc.rst.
    """
    of_first = (read_attribute(f"{group}/cpu.cfs_{name}_us") for name in ("quota", "period"))
    words = (read_attribute(f"{group}/cpu.max") or " ".join(map(str, of_first))).split()
    if not all(word.isdecimal() for word in words):
        return None
    quota, period = map(int, words)
    return -(-quota // period)
