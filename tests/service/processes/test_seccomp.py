"""The filter, run by an interpreter of its instructions, for both kinds of processors."""

from __future__ import annotations

import errno
import struct

import pytest

from service.processes import seccomp
from service.processes.seccomp import ALLOW, ARCHITECTURES, ERRNO, KILL_PROCESS

PID = 4711
EPERM, ENOSYS = ERRNO | errno.EPERM, ERRNO | errno.ENOSYS
TESTS = {
    seccomp.EQUAL: lambda value, k: value == k,
    seccomp.AT_LEAST: lambda value, k: value >= k,
    seccomp.ANY_BIT: lambda value, k: value & k != 0,
}
MACHINES = sorted(ARCHITECTURES)


def verdict(
    machine: str, number: int, argument: int = 0, *, architecture: int | None = None
) -> int:
    """What the filter says of a system call, by the rules of classic BPF."""
    code = list(struct.iter_unpack("HBBI", seccomp.program(machine, pid=PID)))
    known = ARCHITECTURES[machine][0]
    data = struct.pack(
        "<IIQQ", number, known if architecture is None else architecture, 0, argument
    )
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


@pytest.mark.parametrize("machine", MACHINES)
def test_every_call_of_the_table_is_refused_and_no_other(machine: str) -> None:
    column = ARCHITECTURES[machine][1]
    refused = {numbers[column] for numbers in seccomp.REFUSED.values()} - {None}
    special = {
        each[column] for each in (seccomp.CLONE, seccomp.CLONE3, *seccomp.OWN_PROCESS_ONLY.values())
    }
    answers = {number: verdict(machine, number) for number in range(512) if number not in special}
    assert answers == {number: EPERM if number in refused else ALLOW for number in answers}


@pytest.mark.parametrize("machine", MACHINES)
def test_threads_are_made_and_processes_are_not(machine: str) -> None:
    column = ARCHITECTURES[machine][1]
    thread, process = 0x3D0F00, 0x1200011  # as glibc's pthread_create and fork ask
    assert verdict(machine, seccomp.CLONE[column] or 0, thread) == ALLOW
    assert verdict(machine, seccomp.CLONE[column] or 0, process) == EPERM
    assert verdict(machine, seccomp.CLONE3[column] or 0) == ENOSYS


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", sorted(seccomp.OWN_PROCESS_ONLY))
def test_a_process_may_signal_and_limit_itself_alone(machine: str, name: str) -> None:
    number = seccomp.OWN_PROCESS_ONLY[name][ARCHITECTURES[machine][1]] or 0
    of_zero = ALLOW if name == "prlimit64" else EPERM
    said = [verdict(machine, number, pid) for pid in (PID, 0, 1, PID + 1)]
    assert said == [ALLOW, of_zero, EPERM, EPERM]


@pytest.mark.parametrize("machine", MACHINES)
def test_numbers_of_other_interfaces_do_not_pass(machine: str) -> None:
    assert verdict(machine, 1, architecture=0x40000003) == KILL_PROCESS  # 32-bit x86
    assert verdict(machine, 0x40000000 + 41) == ENOSYS
