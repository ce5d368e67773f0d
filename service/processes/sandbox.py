"""The sandbox of a child that processes untrusted models, pictures and answers.

No network, no other programs, no other processes (seccomp), and only files of the task and of the
installation (Landlock). A child that asks a source may connect to other machines. Linux only: other
systems offer unprivileged processes nothing comparable. On Windows a child only gives up its
privileges.

A child enters it before it reads any untrusted data, and before it has threads: existing threads
would stay outside.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import asdict

if TYPE_CHECKING:  # importing it takes longer than entering the sandbox
    from pathlib import Path

PR_SET_NO_NEW_PRIVS = 38
MAX_DESCRIPTORS = 4096
"""Packs are mapped, each with a descriptor: 4,000 of them hold 250 GB of samples."""

INSTALLED = (
    *("/usr", "/lib", "/lib64", "/nix/store", "/gnu/store", "/etc/ld.so.cache"),
    *("/etc/ssl/openssl.cnf", "/etc/pki/tls/openssl.cnf", "/etc/crypto-policies"),
)
"""Folders of shared libraries, which the engine loads on demand, and of their configuration."""
OF_THE_DEVICE = (
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm"),
    *("/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm"),
    *("/dev/urandom", "/dev/random", "/dev/zero", "/etc/localtime"),
)
"""Files that the C library and the engine read about processors and memory."""
ACCELERATORS = (
    *("/dev/dri", "/dev/kfd", "/dev/accel", "/proc/driver/nvidia"),
    *("/sys/bus", "/sys/class", "/sys/devices"),
)
"""Devices of GPUs and the like; NVIDIA's have numbers in their names."""
OF_THE_NETWORK = (
    *("/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf", "/etc/host.conf", "/etc/gai.conf"),
    *("/etc/ssl", "/etc/pki", "/etc/ca-certificates"),
)
"""Files by which names are found and certificates are judged."""
AUTHORITIES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
"""Variables that name other certificate authorities."""
NULL = "/dev/null"
KEPT_PRIVILEGE = "SeChangeNotifyPrivilege"
"""To open files without rights to the folders above them, which Windows gives everybody."""
REFUSALS = (errno.EPERM, errno.EACCES, errno.ENOSYS)
"""How Landlock and seccomp refuse."""


class Confinement(Struct, frozen=True):
    """Restrictions in force. seccomp: whether calls are refused. landlock: its ABI, 0 if none."""

    seccomp: bool = False
    landlock: int = 0


def enter(
    *,
    readable: Iterable[str | Path] = (),
    writable: Iterable[str | Path] = (),
    accelerators: bool = False,
    network: bool = False,
) -> Confinement:
    """Restrict this process for good to the installation and these files and folders.

    Temporary files go to the first writable folder. accelerators: whether GPUs and the like may be
    used. network: whether it may connect to other machines. Raises OSError if the kernel has these
    features but refuses.
    """
    if sys.platform == "win32":
        _drop_privileges()
    if sys.platform != "linux":
        return Confinement()
    import ctypes
    import resource

    from service.processes import landlock, seccomp

    written = list(writable)
    folder = next(filter(os.path.isdir, written), None)
    if folder is not None:
        os.environ["TMPDIR"] = str(folder)
    # A core file would contain samples.
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
    if network:
        named = filter(None, map(os.environ.get, AUTHORITIES))
        rules += [(path, landlock.READ) for path in (*OF_THE_NETWORK, *named)]
    return Confinement(
        landlock=landlock.restrict(libc, rules, connects=network),
        seccomp=seccomp.allow_calls(libc, accelerators=accelerators, network=network),
    )


def _drop_privileges() -> None:
    """Remove from this process's token for good what an administrator or a service may do beyond
    its rights to files: load drivers, debug other programs, act as who connects to it.
    """
    import win32api
    import win32security

    access = win32security.TOKEN_QUERY | win32security.TOKEN_ADJUST_PRIVILEGES
    token = win32security.OpenProcessToken(win32api.GetCurrentProcess(), access)
    kept = win32security.LookupPrivilegeValue(None, KEPT_PRIVILEGE)
    held = win32security.GetTokenInformation(token, win32security.TokenPrivileges)
    removed = [(luid, win32security.SE_PRIVILEGE_REMOVED) for luid, _ in held if luid != kept]
    win32security.AdjustTokenPrivileges(token, False, removed)


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
    """Tries to open a socket and a system file; returns what is refused."""
    import socket
    from pathlib import Path

    names = []
    for name, attempt in (("a socket", socket.socket), ("/etc/passwd", Path("/etc/passwd").open)):
        try:
            attempt().close()
        except OSError as error:
            if error.errno not in REFUSALS:
                raise
            names.append(name)
    return names


def main() -> None:
    """Print, as JSON, how a child of this daemon is restricted."""
    import resource

    from storage.database.codec import dump

    confinement = asdict(enter())
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    sys.stdout.write(dump({**confinement, "files": files, "refused": refused()}))


if __name__ == "__main__":
    main()
