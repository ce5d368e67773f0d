"""Restricts the files that a process may open: Landlock, Linux 5.13 and newer (landlock(7))."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
ASK_VERSION = 1
PATH_BENEATH = 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
REFER, TRUNCATE, IOCTL_DEV = 1 << 13, 1 << 14, 1 << 15
FILE_RIGHTS_BY_ABI = {1: 13, 2: 14, 3: 15, 5: 16}
"""ABI → the number of rights known from it on, which are the lowest bits."""
BIND_TCP, CONNECT_TCP = 0b01, 0b10
"""Known from ABI 4 on."""
SCOPED = 0b11
"""Abstract Unix sockets and signals of other processes, from ABI 6 on."""
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
"""Rights that a rule may grant on a path that is not a folder."""
READ = READ_FILE | READ_DIR
WRITE = READ | WRITE_FILE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_REG | REFER | TRUNCATE
USE_DEVICE = READ | WRITE_FILE | IOCTL_DEV


def abi(libc: ctypes.CDLL) -> int:
    """The running kernel's Landlock ABI; 0 if it has none."""
    return max(0, int(libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ASK_VERSION)))


def restrict(
    libc: ctypes.CDLL, rules: Iterable[tuple[str | Path, int]], *, connects: bool = False
) -> int:
    """Restrict this thread for good to what the rules allow; returns the ABI.

    rules: paths with their rights; those that do not exist are skipped. A right on a folder covers
    everything below it. connects: whether it may connect to other machines. Without Landlock it
    returns 0 and restricts nothing. Call it before there are other threads, and after no_new_privs
    is set. Raises OSError.
    """
    version = abi(libc)
    if version == 0:
        return 0
    known = (1 << max(n for since, n in FILE_RIGHTS_BY_ABI.items() if since <= version)) - 1
    tcp = BIND_TCP if connects else BIND_TCP | CONNECT_TCP
    attributes = struct.pack("QQQ", known, tcp, SCOPED)
    size = 24 if version >= 6 else 16 if version >= 4 else 8
    ruleset = _checked(libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(size), 0))
    try:
        for path, rights in rules:
            _allow(libc, ruleset, path, rights & known)
        _checked(libc.syscall(RESTRICT_SELF, ruleset, 0))
    finally:
        os.close(ruleset)
    return version


def _allow(libc: ctypes.CDLL, ruleset: int, path: str | Path, rights: int) -> None:
    try:
        beneath = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        return  # a path that is missing or unreachable cannot be opened anyway
    try:
        is_folder = os.path.isdir(beneath)  # noqa: PTH112 -- of a descriptor
        rule = struct.pack("=Qi", rights if is_folder else rights & OF_FILES, beneath)
        _checked(libc.syscall(ADD_RULE, ruleset, PATH_BENEATH, rule, 0))
    finally:
        os.close(beneath)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"Landlock: {os.strerror(number)}")
    return result
