"""The filter, run by an interpreter of its instructions, for both kinds of processors."""

from __future__ import annotations

import errno
import re
import struct
from pathlib import Path

import pytest

from service.processes import seccomp
from service.processes.seccomp import (
    ALLOW,
    ALLOWED,
    ARCHITECTURES,
    CLONE,
    ERRNO,
    KILL_PROCESS,
    LIMITED,
    THIS_PROCESS,
    number_of,
)

PID = 4711
EPERM, ENOSYS = ERRNO | errno.EPERM, ERRNO | errno.ENOSYS
TESTS = {
    seccomp.EQUAL: lambda value, k: value == k,
    seccomp.ANY_BIT: lambda value, k: value & k != 0,
}
MACHINES = sorted(ARCHITECTURES)
HEADERS = {
    "x86_64": ("/usr/include/x86_64-linux-gnu/asm/unistd_64.h", r"__NR_(\w+) (\d+)"),
    "aarch64": ("/usr/include/asm-generic/unistd.h", r"__NR(?:3264)?_(\w+) (\d+)"),
}
NUMBERS = range(1024)
DANGEROUS = re.findall(
    r"\w+",
    """
    accept acct add_key bind bpf chmod chown chroot clock_settime connect delete_module execve
    execveat fchmod fchmodat fchown finit_module fork fsopen init_module io_setup io_submit
    io_uring_enter io_uring_register io_uring_setup ioperm iopl ioprio_set kcmp kexec_load keyctl
    landlock_restrict_self link linkat listen migrate_pages mknod mknodat mount move_mount
    move_pages mq_open msgget name_to_handle_at open_by_handle_at perf_event_open personality
    pidfd_getfd pidfd_open pidfd_send_signal pivot_root process_madvise process_mrelease
    process_vm_readv process_vm_writev ptrace quotactl reboot recvmsg request_key rt_sigqueueinfo
    rt_tgsigqueueinfo sched_setattr sched_setparam sched_setscheduler seccomp semget sendmsg
    sendto setdomainname setgid setgroups sethostname setns setpgid setpriority setreuid setsid
    settimeofday setuid setxattr shmget socket socketpair splice swapon symlink symlinkat syslog
    tee tkill truncate umount2 unshare userfaultfd utimensat vfork vhangup vmsplice
    """,
)


def verdict(
    machine: str,
    number: int,
    *arguments: int,
    architecture: int | None = None,
    accelerators: bool = False,
) -> int:
    """What the filter says of a system call, by the rules of classic BPF."""
    text = seccomp.program(machine, pid=PID, accelerators=accelerators)
    code = list(struct.iter_unpack("HBBI", text))
    known = ARCHITECTURES[machine][0]
    words = (*arguments, *[0] * (6 - len(arguments)))
    kind = known if architecture is None else architecture
    data = struct.pack("<IIQ6Q", number, kind, 0, *words)
    at = value = 0
    while True:
        instruction, if_true, if_false, k = code[at]
        at += 1
        if instruction == seccomp.RETURN:
            return int(k)
        if instruction == seccomp.LOAD:
            (value,) = struct.unpack_from("<I", data, k)
        else:
            at += if_true if TESTS[instruction](value, k) else if_false


def numbers(machine: str) -> dict[str, int]:
    """Every number of the tables."""
    found = {name: number_of(each, machine) for name, each in ALLOWED.items()}
    found |= {name: number_of(each, machine) for name, (each, *_) in LIMITED.items()}
    found |= {"clone": number_of(CLONE, machine)}
    return {name: number for name, number in found.items() if number is not None}


def in_header(machine: str) -> dict[str, int]:
    """The kernel's numbers; without its headers the test is skipped."""
    path, line = HEADERS[machine]
    if not Path(path).exists():
        pytest.skip(f"there is no {path}")
    found = {match[1]: int(match[2]) for match in re.finditer(line, Path(path).read_text())}
    return {"newfstatat": found.get("fstatat", 0), **found}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_calls_of_the_table_pass_and_no_other(machine: str) -> None:
    passing = {number_of(each, machine) for each in ALLOWED.values()}
    special = set(numbers(machine).values()) - passing
    answers = {number: verdict(machine, number) for number in NUMBERS if number not in special}
    assert answers == {number: ALLOW if number in passing else ENOSYS for number in answers}


@pytest.mark.parametrize("machine", MACHINES)
def test_the_tables_have_the_kernels_numbers(machine: str) -> None:
    known = in_header(machine)
    assert {name: known[name] for name in numbers(machine)} == numbers(machine)
    lacking = {name for name, each in ALLOWED.items() if number_of(each, machine) is None}
    assert not lacking & known.keys()


@pytest.mark.parametrize("machine", MACHINES)
def test_no_dangerous_call_passes(machine: str) -> None:
    known = in_header(machine)
    answers = {name: verdict(machine, known[name]) for name in DANGEROUS if name in known}
    assert answers == dict.fromkeys(answers, ENOSYS)


@pytest.mark.parametrize("machine", MACHINES)
def test_threads_are_made_and_neither_processes_nor_namespaces(machine: str) -> None:
    thread, process = 0x3D0F00, 0x1200011  # as glibc's pthread_create and fork ask
    clone, new_names, new_network = numbers(machine)["clone"], 0x4000000, 0x40000000
    assert verdict(machine, clone, thread) == ALLOW
    for flags in (process, thread | new_names, thread | new_network):
        assert verdict(machine, clone, flags) == EPERM
    assert verdict(machine, in_header(machine)["clone3"]) == ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", sorted(LIMITED))
def test_a_limited_call_takes_the_values_of_its_table_alone(machine: str, name: str) -> None:
    _, place, values = LIMITED[name]
    number = numbers(machine)[name]
    taken = {PID if value == THIS_PROCESS else value for value in values}
    others = {0, 1, PID, PID + 1, 8, 9, 10, 11, 15, 62, 100, 101, 0x5412, 0x8901, 0xC0045877}
    for value in taken | others:
        arguments = (*[0] * place, value)
        assert verdict(machine, number, *arguments) == (ALLOW if value in taken else EPERM)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_process_may_signal_and_place_itself_alone(machine: str) -> None:
    for name, of_zero in (("kill", EPERM), ("tgkill", EPERM), ("sched_setaffinity", ALLOW)):
        number = numbers(machine)[name]
        said = [verdict(machine, number, pid) for pid in (PID, 0, 1, PID + 1, 2**32 - 1)]
        assert said == [ALLOW, of_zero, EPERM, EPERM, EPERM]


@pytest.mark.parametrize("machine", MACHINES)
def test_accelerators_may_be_asked_what_no_other_device_is_asked(machine: str) -> None:
    ioctl, of_a_driver = numbers(machine)["ioctl"], 0xC0106446
    for value in (*seccomp.NO_DEVICES, of_a_driver):
        assert verdict(machine, ioctl, 3, value) == EPERM
    assert verdict(machine, ioctl, 3, of_a_driver, accelerators=True) == ALLOW
    for value in seccomp.NO_DEVICES:
        assert verdict(machine, ioctl, 3, value, accelerators=True) == EPERM


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_of_other_interfaces_do_not_pass(machine: str) -> None:
    assert verdict(machine, 1, architecture=0x40000003) == KILL_PROCESS  # 32-bit x86
    for number in NUMBERS:
        assert verdict(machine, 0x40000000 + number) == ENOSYS  # x32
