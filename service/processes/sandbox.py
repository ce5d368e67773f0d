"""The sandbox of a child that processes untrusted models and pictures.

No network, no other programs, no other processes (seccomp), and of all files only those of the
task and of the installation (Landlock). On Linux; other systems have nothing of the kind that an
unprivileged process can ask for, and children run there without.

A child enters it before it reads anything that a stranger has made, and before it has threads:
those that exist would stay outside.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # it takes longer to import than all of this takes
    from pathlib import Path

PR_SET_NO_NEW_PRIVS = 38
MAX_DESCRIPTORS = 4096
"""Packs are mapped, each with a descriptor: 4,000 of them hold 250 GB of samples."""

INSTALLED = (
    *("/usr", "/lib", "/lib64", "/nix/store", "/gnu/store", "/etc/ld.so.cache"),
    *("/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf", "/etc/crypto-policies"),
)
"""Where shared libraries lie, which the engine loads when it needs them, and how they are set."""
OF_THE_DEVICE = (
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm"),
    *("/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm"),
    *("/dev/urandom", "/dev/random", "/dev/zero", "/etc/localtime"),
)
"""What the C library and the engine read of processors and memory."""
ACCELERATORS = (
    *("/dev/dri", "/dev/kfd", "/dev/accel", "/proc/driver/nvidia"),
    *("/sys/bus", "/sys/class", "/sys/devices"),
)
"""Of GPUs and the like; NVIDIA's devices have numbers in their names."""
NULL = "/dev/null"


@dataclass(frozen=True, slots=True)
class Confinement:
    """What is in force. seccomp: whether calls are refused. landlock: its ABI, 0 without."""

    seccomp: bool = False
    landlock: int = 0


def enter(
    *,
    readable: Iterable[str | Path] = (),
    writable: Iterable[str | Path] = (),
    accelerators: bool = False,
) -> Confinement:
    """Keep this process to the installation and these files and folders, for good.

    Temporary files go to the first folder of those that are writable. accelerators: whether GPUs
    and the like may be used. Raises OSError if the kernel refuses what it has.
    """
    if sys.platform != "linux":
        return Confinement()
    import ctypes
    import resource

    from service.processes import landlock, seccomp

    written = list(writable)
    folder = next(filter(os.path.isdir, written), None)
    if folder is not None:
        os.environ["TMPDIR"] = str(folder)
    # A core file would hold samples.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _limit_descriptors(resource)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "the kernel does not set no_new_privs")
    rules = [(path, landlock.READ) for path in (*_installation(), *readable)]
    rules += [(path, landlock.WRITE) for path in written]
    rules.append((NULL, landlock.USE_DEVICE))
    if accelerators:
        rules += [(path, landlock.USE_DEVICE) for path in _accelerators()]
    return Confinement(landlock=landlock.restrict(libc, rules), seccomp=seccomp.refuse_calls(libc))


def _installation() -> Iterator[str | Path]:
    libraries = os.environ.get("LD_LIBRARY_PATH", "").split(os.pathsep)
    for name in dict.fromkeys(
        (sys.prefix, sys.base_prefix, *sys.path, *libraries, *INSTALLED, *OF_THE_DEVICE)
    ):
        if name:
            yield name


def _accelerators() -> Iterator[str | Path]:
    from pathlib import Path

    yield from ACCELERATORS
    yield from Path("/dev").glob("nvidia*")


def _limit_descriptors(resource: Any) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    most = MAX_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, MAX_DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def refused() -> list[str]:
    """What this process may not do, of a socket and a file of the system, by trying."""
    import socket
    from pathlib import Path

    found = []
    for name, attempt in (("a socket", socket.socket), ("/etc/passwd", Path("/etc/passwd").open)):
        try:
            attempt().close()
        except PermissionError:
            found.append(name)
    return found


def main() -> None:
    """Tell, as JSON, what a child of this daemon is kept from."""
    import json
    import resource

    confinement = asdict(enter())
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    sys.stdout.write(json.dumps({**confinement, "files": files, "refused": refused()}))


if __name__ == "__main__":
    main()
