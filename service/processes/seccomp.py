"""The system calls that children may make, on x86-64 and aarch64; the kernel refuses all others.

An allow-list for seccomp(2). A call that is not in it fails as one that the kernel does not have
(ENOSYS), and the C library falls back to an older one, as it does on an older kernel.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from itertools import chain

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
Numbers = tuple["int | None", "int | None"]
"""A system call's number on x86-64, and on aarch64 if it exists there."""
ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""Machine → AUDIT_ARCH, as in the kernel's audit.h, and its column in the tables."""

# fmt: off
ALLOWED: dict[str, Numbers] = {
    # What is open already.
    "read": (0, 63), "write": (1, 64), "readv": (19, 65), "writev": (20, 66), "lseek": (8, 62),
    "pread64": (17, 67), "pwrite64": (18, 68), "preadv": (295, 69), "pwritev": (296, 70),
    "close": (3, 57), "close_range": (436, 436), "dup": (32, 23), "dup2": (33, None),
    "dup3": (292, 24), "pipe2": (293, 59), "eventfd2": (290, 19), "poll": (7, None),
    "ppoll": (271, 73), "select": (23, None), "pselect6": (270, 72), "epoll_create1": (291, 20),
    "epoll_ctl": (233, 21), "epoll_wait": (232, None), "epoll_pwait": (281, 22),
    "fsync": (74, 82), "fdatasync": (75, 83), "flock": (73, 32), "ftruncate": (77, 46),
    "fallocate": (285, 47), "fadvise64": (221, 223), "sendfile": (40, 71),
    "copy_file_range": (326, 285), "fstat": (5, 80), "fstatfs": (138, 44), "getdents64": (217, 61),
    # Files: which, Landlock decides.
    "open": (2, None), "openat": (257, 56), "openat2": (437, 437), "stat": (4, None),
    "lstat": (6, None), "newfstatat": (262, 79), "statx": (332, 291), "statfs": (137, 43),
    "access": (21, None), "faccessat": (269, 48), "faccessat2": (439, 439), "readlink": (89, None),
    "readlinkat": (267, 78), "getcwd": (79, 17), "umask": (95, 166), "mkdir": (83, None),
    "mkdirat": (258, 34), "rmdir": (84, None), "unlink": (87, None), "unlinkat": (263, 35),
    "rename": (82, None), "renameat": (264, 38), "renameat2": (316, 276),
    # Its own memory; the last five are of programs for accelerators.
    "brk": (12, 214), "mmap": (9, 222), "munmap": (11, 215), "mremap": (25, 216),
    "mprotect": (10, 226), "msync": (26, 227), "memfd_create": (319, 279), "mlock": (149, 228),
    "munlock": (150, 229), "mbind": (237, 235), "get_mempolicy": (239, 236),
    # Its own threads and signals.
    "exit": (60, 93), "exit_group": (231, 94), "futex": (202, 98), "futex_waitv": (449, 449),
    "set_tid_address": (218, 96), "set_robust_list": (273, 99), "rseq": (334, 293),
    "arch_prctl": (158, None), "sched_yield": (24, 124), "getcpu": (309, 168),
    "sched_getaffinity": (204, 123), "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120), "sched_get_priority_max": (146, 125),
    "sched_get_priority_min": (147, 126), "rt_sigaction": (13, 134), "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139), "sigaltstack": (131, 132), "restart_syscall": (219, 128),
    # Time, and what it is and has used.
    "clock_gettime": (228, 113), "clock_getres": (229, 114), "clock_nanosleep": (230, 115),
    "nanosleep": (35, 101), "gettimeofday": (96, 169), "time": (201, None), "times": (100, 153),
    "getrusage": (98, 165), "getpid": (39, 172), "getppid": (110, 173), "gettid": (186, 178),
    "getuid": (102, 174), "geteuid": (107, 175), "getgid": (104, 176), "getegid": (108, 177),
    "getpriority": (140, 141), "uname": (63, 160), "sysinfo": (99, 179), "getrandom": (318, 278),
}
"""Allowed with any arguments. Numbers: the kernel's unistd_64.h, asm-generic/unistd.h."""
THIS_PROCESS = -1
"""Stands for the process's id."""
LIMITED: dict[str, tuple[Numbers, int, tuple[int, ...]]] = {
    "kill": ((62, 129), 0, (THIS_PROCESS,)),
    "tgkill": ((234, 131), 0, (THIS_PROCESS,)),
    "prlimit64": ((302, 261), 0, (0, THIS_PROCESS)),
    "sched_setaffinity": ((203, 122), 0, (0, THIS_PROCESS)),
    # F_DUPFD to F_SETLKW, F_OFD_GETLK to F_OFD_SETLKW, F_DUPFD_CLOEXEC; F_SETOWN sends signals.
    "fcntl": ((72, 25), 1, (*range(8), 36, 37, 38, 1030)),
    # TCGETS, TIOCGWINSZ, FIONREAD, FIONBIO, FIONCLEX, FIOCLEX; FIOSETOWN sends signals.
    "ioctl": ((16, 29), 1, (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)),
    # PR_SET_NAME, PR_GET_NAME, PR_SET_VMA; PR_SCHED_CORE concerns other processes.
    "prctl": ((157, 167), 0, (15, 16, 0x53564D41)),
    # All but MADV_HWPOISON and MADV_SOFT_OFFLINE, by which root takes memory from the device.
    "madvise": ((28, 233), 2, (*range(26), 102, 103)),
}
"""Allowed if one argument has one of these values: name → numbers, the argument's place, values."""
OF_NETWORK: dict[str, Numbers] = {
    "connect": (42, 203), "getsockname": (51, 204), "getpeername": (52, 205), "sendto": (44, 206),
    "recvfrom": (45, 207), "setsockopt": (54, 208), "getsockopt": (55, 209), "shutdown": (48, 210),
    "sendmsg": (46, 211), "recvmsg": (47, 212), "sendmmsg": (307, 269),
}
"""Allowed besides to a child that asks others."""
# AF_INET, AF_INET6, and AF_NETLINK, by which addresses are chosen; not AF_UNIX.
SOCKET: tuple[Numbers, int, tuple[int, ...]] = ((41, 198), 0, (2, 10, 16))
# fmt: on
NO_DEVICES = (0x8901, 0x8902, 0x5412, 0x541C, 0xC0045877, 0xC0045878)
"""FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX, FIFREEZE, FITHAW: what `ioctl` does not take of a child
that uses accelerators, whose drivers have numbers of their own."""
CLONE: Numbers = (56, 220)
CLONE_THREAD, NEW_NAMESPACES = 0x10000, 0x7E020000
IOPRIO_SET: Numbers = (251, 30)
"""Not allowed: asked before the filter is in force."""

Instruction = tuple[int, int, int, int]
"""Code, jumps if true and if false, operand."""
LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
"""Instructions of the classic BPF: ld [k], jeq, jset, ret."""
ALLOW, KILL_PROCESS, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER_AT, ARCHITECTURE_AT, FIRST_ARGUMENT_AT, ARGUMENT_BYTES = 0, 4, 16, 8
"""Offsets in struct seccomp_data; of an argument, its lower half."""
PASS = (RETURN, 0, 0, ALLOW)
REFUSE = (RETURN, 0, 0, ERRNO | errno.EPERM)
UNKNOWN = (RETURN, 0, 0, ERRNO | errno.ENOSYS)


def is_known(machine: str) -> bool:
    """Whether the tables cover this kind of processor."""
    return machine in ARCHITECTURES


def number_of(numbers: Numbers, machine: str) -> int | None:
    """The number of a call on this kind of processor."""
    return numbers[ARCHITECTURES[machine][1]]


def allow_calls(libc: ctypes.CDLL, *, accelerators: bool = False, network: bool = False) -> bool:
    """Install the filter in this thread, for good; False if kernel or processor do not support it.

    Call it before there are other threads, and after no_new_privs is set. Raises OSError.
    """
    machine = os.uname().machine
    if not is_known(machine):
        return False
    text = program(machine, pid=os.getpid(), accelerators=accelerators, network=network)
    code = ctypes.create_string_buffer(text, len(text))
    # struct sock_fprog: a count, padding, a pointer.
    filters = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(text) // 8, _address(code)))
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_void_p(_address(filters)), 0, 0):
        number = ctypes.get_errno()
        if number == errno.EINVAL:  # a kernel built without it
            return False
        raise OSError(number, f"the kernel takes no seccomp filter: {os.strerror(number)}")
    return True


def program(machine: str, *, pid: int, accelerators: bool = False, network: bool = False) -> bytes:
    """The filter, as an array of struct sock_filter."""
    code: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (EQUAL, 1, 0, ARCHITECTURES[machine][0]),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, NUMBER_AT),
    ]
    for numbers in (ALLOWED | OF_NETWORK if network else ALLOWED).values():
        code += _called(numbers, machine, PASS)
    limited = LIMITED | {"socket": SOCKET} if network else LIMITED
    for name, (numbers, place, values) in limited.items():
        is_device = name == "ioctl" and accelerators
        chosen = NO_DEVICES if is_device else values
        match, otherwise = (REFUSE, PASS) if is_device else (PASS, REFUSE)
        tests = [when(EQUAL, pid if value == THIS_PROCESS else value, match) for value in chosen]
        code += _called(numbers, machine, _argument(place), *chain.from_iterable(tests), otherwise)
    # With the flags of a thread; those of `clone3` are behind a pointer, which no filter reads.
    is_thread = when(ANY_BIT, CLONE_THREAD, PASS)
    new = when(ANY_BIT, NEW_NAMESPACES, REFUSE)
    code += _called(CLONE, machine, _argument(0), *new, *is_thread, REFUSE)
    code.append(UNKNOWN)
    return b"".join(struct.pack("HBBI", *instruction) for instruction in code)


def when(test: int, value: int, *then: Instruction) -> list[Instruction]:
    """Instructions that run if the loaded value passes the test, and are skipped if not."""
    return [(test, 0, len(then), value), *then]


def _called(numbers: Numbers, machine: str, *then: Instruction) -> list[Instruction]:
    """Instructions for one call; none where it does not exist."""
    number = number_of(numbers, machine)
    return [] if number is None else when(EQUAL, number, *then)


def _argument(place: int) -> Instruction:
    return (LOAD, 0, 0, FIRST_ARGUMENT_AT + ARGUMENT_BYTES * place)


def _address(buffer: ctypes.Array[ctypes.c_char]) -> int:
    return ctypes.addressof(buffer)
