"""System calls that no child needs, refused by the kernel: seccomp(2), on x86-64 and aarch64.

This is a deny list: the engine, its threads and the C library are not ours, and the calls they need
differ from one release to the next.
"""

from __future__ import annotations

import ctypes
import errno
import os
import struct

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2
Numbers = tuple["int | None", "int | None"]
"""A system call's number on x86-64, and on aarch64 if it exists there."""
ARCHITECTURES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}
"""Machine → AUDIT_ARCH, as in the kernel's audit.h, and its column in the tables."""
X32 = 0x40000000
"""Bit in call numbers of the x32 ABI of x86-64, which has the same calls once more."""
CLONE_THREAD = 0x10000

# fmt: off
REFUSED: dict[str, Numbers] = {
    # The network. io_uring opens sockets without asking seccomp.
    "socket": (41, 198), "socketpair": (53, 199),
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427),
    # Other programs, and other processes of the same user.
    "fork": (57, None), "vfork": (58, None), "execve": (59, 221), "execveat": (322, 281),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271),
    "pidfd_open": (434, 434), "pidfd_send_signal": (424, 424), "pidfd_getfd": (438, 438),
    "tkill": (200, 130), "rt_sigqueueinfo": (129, 138), "rt_tgsigqueueinfo": (297, 240),
    "setpriority": (141, 140), "ioprio_set": (251, 30), "sched_setattr": (314, 274),
    "sched_setparam": (142, 118), "sched_setscheduler": (144, 119),
    "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186), "mq_open": (240, 180),
    # Not covered by Landlock: modes, owners, attributes and times of any file.
    "chmod": (90, None), "fchmod": (91, 52), "fchmodat": (268, 53), "fchmodat2": (452, 452),
    "chown": (92, None), "lchown": (94, None), "fchown": (93, 55), "fchownat": (260, 54),
    "setxattr": (188, 5), "lsetxattr": (189, 6), "fsetxattr": (190, 7),
    "removexattr": (197, 14), "lremovexattr": (198, 15), "fremovexattr": (199, 16),
    "setxattrat": (463, 463), "removexattrat": (466, 466), "utimensat": (280, 88),
    "utime": (132, None), "utimes": (235, None), "futimesat": (261, None),
    # Kernel features prone to vulnerabilities, and calls that matter if the daemon is root's.
    "bpf": (321, 280), "perf_event_open": (298, 241), "userfaultfd": (323, 282),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219),
    "unshare": (272, 97), "setns": (308, 268), "chroot": (161, 51), "pivot_root": (155, 41),
    "mount": (165, 40), "umount2": (166, 39), "open_tree": (428, 428), "fsopen": (430, 430),
    "move_mount": (429, 429), "mount_setattr": (442, 442), "open_by_handle_at": (304, 265),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "personality": (135, 92),
}
# fmt: on
"""System calls that get EPERM, with their numbers: unistd_64.h, asm-generic/unistd.h."""
OWN_PROCESS_ONLY: dict[str, Numbers] = {
    "kill": (62, 129),
    "tgkill": (234, 131),
    "prlimit64": (302, 261),
}
"""Allowed only if the first argument is this process."""
ZERO_IS_OWN = "prlimit64"
"""The call in which 0 also means this process; for `kill` it means the group, with the daemon."""
CLONE: Numbers = (56, 220)
CLONE3: Numbers = (435, 435)

Instruction = tuple[int, int, int, int]
"""Code, jumps if true and if false, operand."""
LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
"""Instructions of the classic BPF: ld [k], jeq, jge, jset, ret."""
ALLOW, KILL_PROCESS, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
NUMBER_AT, ARCHITECTURE_AT, FIRST_ARGUMENT_AT = 0, 4, 16
"""Offsets in struct seccomp_data; of an argument, its lower half."""


def is_known(machine: str) -> bool:
    """Whether the tables cover this kind of processor."""
    return machine in ARCHITECTURES


def number_of(call: str, machine: str) -> int:
    """The number of a refused call."""
    return _number(REFUSED[call], ARCHITECTURES[machine][1])


def refuse_calls(libc: ctypes.CDLL) -> bool:
    """Install the filter in this thread, for good; False if kernel or processor do not support it.

    Call it before there are other threads, and after no_new_privs is set. Raises OSError.
    """
    machine = os.uname().machine
    if not is_known(machine):
        return False
    text = program(machine, pid=os.getpid())
    code = ctypes.create_string_buffer(text, len(text))
    # struct sock_fprog: a count, padding, a pointer.
    filters = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(text) // 8, _address(code)))
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.c_void_p(_address(filters)), 0, 0):
        number = ctypes.get_errno()
        if number == errno.EINVAL:  # a kernel built without it
            return False
        raise OSError(number, f"the kernel takes no seccomp filter: {os.strerror(number)}")
    return True


def program(machine: str, *, pid: int) -> bytes:
    """The filter, as an array of struct sock_filter."""
    architecture, column = ARCHITECTURES[machine]
    code: list[Instruction] = [
        (LOAD, 0, 0, ARCHITECTURE_AT),
        (EQUAL, 1, 0, architecture),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, NUMBER_AT),
        *when(AT_LEAST, X32, (RETURN, 0, 0, ERRNO | errno.ENOSYS)),
        # Its flags are behind a pointer, which the filter cannot read; with ENOSYS, the C library
        # falls back to `clone`.
        *when(EQUAL, _number(CLONE3, column), (RETURN, 0, 0, ERRNO | errno.ENOSYS)),
        *when(
            EQUAL,
            _number(CLONE, column),
            (LOAD, 0, 0, FIRST_ARGUMENT_AT),
            *when(ANY_BIT, CLONE_THREAD, (RETURN, 0, 0, ALLOW)),
            (RETURN, 0, 0, ERRNO | errno.EPERM),
        ),
    ]
    for name, numbers in OWN_PROCESS_ONLY.items():
        code += when(
            EQUAL,
            _number(numbers, column),
            (LOAD, 0, 0, FIRST_ARGUMENT_AT),
            *when(EQUAL, pid, (RETURN, 0, 0, ALLOW)),
            *(when(EQUAL, 0, (RETURN, 0, 0, ALLOW)) if name == ZERO_IS_OWN else ()),
            (RETURN, 0, 0, ERRNO | errno.EPERM),
        )
    for numbers in REFUSED.values():
        if numbers[column] is not None:
            code += when(EQUAL, _number(numbers, column), (RETURN, 0, 0, ERRNO | errno.EPERM))
    code.append((RETURN, 0, 0, ALLOW))
    return b"".join(struct.pack("HBBI", *each) for each in code)


def when(test: int, value: int, *then: Instruction) -> list[Instruction]:
    """Instructions that run if the loaded value passes the test, and are skipped if not."""
    return [(test, 0, len(then), value), *then]


def _number(numbers: Numbers, column: int) -> int:
    number = numbers[column]
    assert number is not None
    return number


def _address(buffer: ctypes.Array[ctypes.c_char]) -> int:
    return ctypes.addressof(buffer)
