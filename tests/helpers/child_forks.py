"""Children of a forked daemon, forked where what they import is loaded already.

To import it takes 0.2 s of a processor, more than most of them work. A process beside the daemon,
forked before the daemon has threads, forks each child. The kernel makes it the daemon's own
(CLONE_PARENT): the daemon waits for it, signals and limits it as one that it has started. It gets
the pipes, arguments, folder, environment, limits and priority of such a one, and runs the module's
main as `python -m` does; numpy's own library alone keeps one thread.
"""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import resource
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from service.processes.seccomp import ARCHITECTURES, CLONE

OF_DAEMONS = (
    "service.training",
    "service.prediction",
    "service.preprocess.thumbnail",
    "api.description",
)
"""Modules that its children run; other programs are started."""
MAX_ORDER_BYTES = 128 * 2**10
CLONE_PARENT, CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID = 0x8000, 0x200000, 0x1000000
PR_GET_TID_ADDRESS = 40
ARGUMENTS_AT, ARGUMENTS_END_AT = 48, 49
"""Fields of /proc/self/stat, counted from 1: where the command line lies in memory."""
LIMITS = [getattr(resource, name) for name in dir(resource) if name.startswith("RLIMIT_")]


@dataclass(frozen=True)
class Order:
    """What a child gets of the daemon, besides its pipes."""

    arguments: list[str]
    folder: str
    environment: dict[str, str]
    limits: dict[int, tuple[int, int]]
    priority: int
    umask: int


def fork_children(
    import_path: list[str], *, name: str, modules: Collection[str] = OF_DAEMONS
) -> None:
    """From now on fork this process's children that run these modules. Call before it has threads.

    import_path: `sys.path` of a started interpreter, without its working folder. name: the command
    line of the process that forks.
    """
    start = getattr(subprocess, "_fork_exec", None)
    if start is None or os.uname().machine not in ARCHITECTURES:  # CPython 3.10
        return
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        _show_command_line([name])
        _serve(theirs, import_path)
    theirs.close()
    subprocess._fork_exec = _Forks(ours, modules, start)  # type: ignore[attr-defined]


class _Forks:
    """Stands for the call that starts a program, which `Popen` makes with pipes ready."""

    def __init__(
        self, door: socket.socket, modules: Collection[str], start: Callable[..., int]
    ) -> None:
        self._door = door
        self._modules = modules
        self._start = start
        self._turn = threading.Lock()

    def __call__(self, command: list[Any], *rest: Any) -> int:
        _programs, _close, _keep, folder, environment, *pipes = rest
        arguments = [os.fsdecode(each) for each in command]
        if arguments[:2] != [sys.executable, "-m"] or arguments[2] not in self._modules:
            return self._start(command, *rest)
        stdin, _, _, stdout, _, stderr = pipes[:6]
        pairs = (os.fsdecode(each).split("=", 1) for each in environment)
        order = Order(
            arguments=arguments,
            folder=os.fsdecode(folder),
            environment=dict(pairs),
            limits={each: resource.getrlimit(each) for each in LIMITS},
            priority=os.getpriority(os.PRIO_PROCESS, os.getpid()),
            umask=_umask(),
        )
        with self._turn:
            socket.send_fds(self._door, [pickle.dumps(order)], [stdin, stdout, stderr])
            answer = int(self._door.recv(MAX_ORDER_BYTES))
        if answer < 0:
            raise OSError(-answer, os.strerror(-answer))
        return answer


def _umask() -> int:
    status = Path("/proc/self/status").read_text("ascii", "replace")
    return int(status.partition("\nUmask:")[2].split()[0], 8)


def _serve(door: socket.socket, import_path: list[str]) -> NoReturn:
    """Fork until the daemon has ended."""
    interrupted = signal.signal(signal.SIGINT, signal.SIG_IGN)
    gc.disable()
    gc.freeze()
    while True:
        order, descriptors, _, _ = socket.recv_fds(door, MAX_ORDER_BYTES, 3)
        if not order:
            os._exit(0)
        prepared, preparing = os.pipe()
        pid = _fork_sibling()
        if pid == 0:
            signal.signal(signal.SIGINT, interrupted)
            _become(pickle.loads(order), descriptors, import_path)
        os.close(preparing)
        # Until the child closes its end: later it would take back what the parent limits by number.
        os.read(prepared, 1)
        for each in (prepared, *descriptors):
            os.close(each)
        door.send(str(pid).encode())


def _fork_sibling() -> int:
    """As `os.fork`, but the new process has this one's parent. Negative: the error's number.

    Like the C library's fork it keeps the number of the thread where the library looks for it.
    """
    library, interpreter = ctypes.PyDLL(None, use_errno=True), ctypes.pythonapi
    thread_number = ctypes.c_void_p()
    library.prctl(PR_GET_TID_ADDRESS, ctypes.byref(thread_number))
    flags = CLONE_PARENT | CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID
    # The last two are in another order on each of them: one is the number's address, one is unused.
    machine = os.uname().machine
    column = ARCHITECTURES[machine][1]
    last = (thread_number, None) if machine == "x86_64" else (None, thread_number)
    interpreter.PyOS_BeforeFork()
    pid = library.syscall(ctypes.c_long(CLONE[column]), ctypes.c_long(flags), None, None, *last)
    if pid == 0:
        interpreter.PyOS_AfterFork_Child()
        return 0
    interpreter.PyOS_AfterFork_Parent()
    return pid if pid > 0 else -ctypes.get_errno()


def _become(order: Order, descriptors: list[int], import_path: list[str]) -> NoReturn:
    """Be the child: run its module to the end."""
    _show_command_line(order.arguments)
    gc.enable()
    os.setpriority(os.PRIO_PROCESS, 0, order.priority)
    for limit, values in order.limits.items():
        resource.setrlimit(limit, values)
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(len(descriptors), os.sysconf("SC_OPEN_MAX"))
    os.chdir(order.folder)
    os.umask(order.umask)
    os.environ.clear()
    os.environ.update(order.environment)
    time.tzset()
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    _, _, module, *rest = order.arguments
    sys.argv[:] = ["-m", *rest]
    sys.orig_argv[:] = order.arguments
    sys.path[:] = [order.folder, *import_path]
    os._exit(_run(module))


def _run(module: str) -> int:
    """The exit code that an interpreter ends with."""
    code: object = None
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    return code if isinstance(code, int) else int(code is not None)


def _show_command_line(arguments: list[str]) -> None:
    """Write over the place that others read it from."""
    fields = Path("/proc/self/stat").read_text("ascii", "replace").rpartition(")")[2].split()
    # What is behind the name begins with the third field.
    begin, end = int(fields[ARGUMENTS_AT - 3]), int(fields[ARGUMENTS_END_AT - 3])
    shown = b"\0".join(map(os.fsencode, arguments)) + b"\0"
    ctypes.memmove(begin, shown.ljust(end - begin, b"\0"), end - begin)
