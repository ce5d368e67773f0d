"""Runs a program under the restrictions of systemd/honed.service, without systemd; needs root.

python as_systemd.py FOLDER SOCKET PROGRAM…: FOLDER alone can be written. The socket is bound, and
passed on as systemd does.
"""

from __future__ import annotations

import ctypes
import errno
import os
import re
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from service.processes.seccomp import (
    ALLOW,
    EQUAL,
    ERRNO,
    FIRST_ARGUMENT_AT,
    LOAD,
    NUMBER_AT,
    PR_SET_SECCOMP,
    RETURN,
    when,
)

NUMBERS = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")
CLONE_NEWNS, CLONE_NEWNET = 0x00020000, 0x40000000
MS_BIND, MS_REC, MS_PRIVATE = 0x1000, 0x4000, 0x40000
MOUNT_SETATTR, AT_RECURSIVE, RDONLY = 442, 0x8000, 1
PR_CAPBSET_DROP, PR_SET_SECUREBITS, PR_SET_NO_NEW_PRIVS, PR_SET_MDWE = 24, 28, 38, 65
NO_ROOT = 0b1111
"""SECBIT_NOROOT, SECBIT_NO_SETUID_FIXUP, both locked: root is a user like any other."""
CAPSET, CAPABILITY_VERSION_3, CAPABILITIES = 126, 0x20080522, 41
LANDLOCK = {"landlock_create_ruleset", "landlock_add_rule", "landlock_restrict_self"}

libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def isolate(folder: Path) -> None:
    """PrivateNetwork, PrivateMounts, ProtectSystem=strict."""
    checked(libc.unshare(CLONE_NEWNS | CLONE_NEWNET))
    checked(libc.mount(b"none", b"/", None, MS_REC | MS_PRIVATE, None))
    checked(libc.mount(bytes(folder), bytes(folder), None, MS_BIND, None))
    change(b"/", add=RDONLY)
    for path in (b"/proc", b"/dev", bytes(folder)):
        change(path, remove=RDONLY)


def change(path: bytes, *, add: int = 0, remove: int = 0) -> None:
    attributes = struct.pack("QQQQ", add, remove, 0, 0)
    size = ctypes.c_size_t(len(attributes))
    checked(libc.syscall(MOUNT_SETATTR, -1, path, AT_RECURSIVE, attributes, size))


def drop_capabilities() -> None:
    """CapabilityBoundingSet=, NoNewPrivileges=, of a user who is not root."""
    for capability in range(CAPABILITIES):
        checked(libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0))
    checked(libc.prctl(PR_SET_SECUREBITS, NO_ROOT, 0, 0, 0))
    header = struct.pack("Ii", CAPABILITY_VERSION_3, 0)
    checked(libc.syscall(CAPSET, header, bytes(24)))
    checked(libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def allowing_filter() -> bytes:
    """SystemCallFilter=, SystemCallErrorNumber=EPERM, RestrictAddressFamilies=AF_UNIX."""
    numbers = {m[1]: int(m[2]) for m in re.finditer(r"__NR_(\w+) (\d+)", NUMBERS.read_text())}
    names = (set(members("@system-service")) | LANDLOCK) - set(members("@privileged"))
    code = [
        (LOAD, 0, 0, NUMBER_AT),
        *when(
            EQUAL,
            numbers["socket"],
            (LOAD, 0, 0, FIRST_ARGUMENT_AT),
            *when(EQUAL, socket.AF_UNIX, (RETURN, 0, 0, ALLOW)),
            (RETURN, 0, 0, ERRNO | errno.EAFNOSUPPORT),
        ),
    ]
    for name in sorted(names & numbers.keys()):
        code += when(EQUAL, numbers[name], (RETURN, 0, 0, ALLOW))
    code.append((RETURN, 0, 0, ERRNO | errno.EPERM))
    return b"".join(struct.pack("HBBI", *each) for each in code)


def filter_calls(text: bytes) -> None:
    """Let the kernel ask this filter, an array of struct sock_filter, from now on."""
    instructions = ctypes.create_string_buffer(text, len(text))
    fprog = struct.pack("HxxxxxxP", len(text) // 8, ctypes.addressof(instructions))
    checked(libc.prctl(PR_SET_SECCOMP, 2, ctypes.create_string_buffer(fprog), 0, 0))


def members(group: str) -> Iterator[str]:
    """Every system call of a group, as systemd resolves it."""
    said = subprocess.run(
        ["systemd-analyze", "syscall-filter", group], capture_output=True, text=True, check=True
    ).stdout
    for line in said.splitlines()[1:]:
        name = line.strip()
        if name.startswith("@"):
            yield from members(name)
        elif name and not name.startswith("#"):
            yield name


def main() -> None:
    folder, path, *program = sys.argv[1:]
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()
    text = allowing_filter()
    isolate(Path(folder))
    os.umask(0o077)
    os.dup2(listener.fileno(), 3)
    os.set_inheritable(3, True)
    os.environ |= {"LISTEN_PID": str(os.getpid()), "LISTEN_FDS": "1", "TMPDIR": folder}
    checked(libc.prctl(PR_SET_MDWE, 1, 0, 0, 0))
    drop_capabilities()
    filter_calls(text)
    os.execv(program[0], program)


if __name__ == "__main__":
    main()
