"""Children of a daemon or of the tests, forked where what they import is loaded already.

To import it takes 0.2 s of a processor, more than most of them work. A process beside the daemon,
forked before the daemon has threads, forks each child; beside the tests it is an interpreter that
they start. The kernel makes the child the daemon's own (CLONE_PARENT): the daemon waits for it,
signals and limits it as one that it has started. It gets the pipes, arguments, folder, environment,
limits and priority of such a one, and runs the module's main as `python -m` does; numpy's own
library alone keeps one thread.
"""

from __future__ import annotations

import ctypes
import errno
import gc
import json
import os
import pickle
import runpy
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

from daemon_process import environment_of_forks

from service.processes.seccomp import ARCHITECTURES, CLONE

OF_DAEMONS = (
    "service.training",
    "service.prediction",
    "service.follow",
    "service.preprocess.masks",
    "service.preprocess.thumbnail",
    "api.description",
)
"""Modules that its children run; other programs are started."""
STRICT = ["-W", "error"]
"""The one option of the interpreter that a forked child may have."""
BESIDE = "from child_forks import beside; beside()"
MAX_ORDER_BYTES = 128 * 2**10
CLONE_PARENT, CLONE_CHILD_CLEARTID, CLONE_CHILD_SETTID = 0x8000, 0x200000, 0x1000000
PR_GET_TID_ADDRESS = 40
ARGUMENTS_AT, ARGUMENTS_END_AT = 48, 49
"""Fields of /proc/self/stat, counted from 1: where the command line lies in memory."""
if sys.platform != "win32":  # where nothing is forked
    import resource

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
    start = _start_of_programs()
    if start is None:
        return
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    if os.fork() == 0:
        ours.close()
        _show_command_line([name])
        _serve(theirs, import_path)
    theirs.close()
    subprocess._fork_exec = _Forks(lambda: ours, modules, start)  # type: ignore[attr-defined]


@contextmanager
def children_forked(
    import_path: list[str], *, preloaded: list[str], modules: Collection[str] = OF_DAEMONS
) -> Iterator[None]:
    """As `fork_children`, for a process that has threads, until the end of the block.

    preloaded: what the process that forks imports; the first child starts it.
    """
    start = _start_of_programs()
    if start is None:
        yield
        return
    with ExitStack() as stack:
        door = cache(lambda: stack.enter_context(_started(import_path, preloaded)))
        stack.callback(setattr, subprocess, "_fork_exec", start)
        subprocess._fork_exec = _Forks(door, modules, start)  # type: ignore[attr-defined]
        yield


@contextmanager
def programs_started() -> Iterator[None]:
    """Within it children are started, not forked."""
    forks = getattr(subprocess, "_fork_exec", None)
    with ExitStack() as stack:
        if isinstance(forks, _Forks):
            stack.callback(setattr, subprocess, "_fork_exec", forks)
            subprocess._fork_exec = forks.start  # type: ignore[attr-defined]
        yield


def _start_of_programs() -> Callable[..., int] | None:
    """The call that starts a program, which `Popen` makes with pipes ready."""
    if sys.platform != "linux" or os.uname().machine not in ARCHITECTURES:
        return None
    return getattr(subprocess, "_fork_exec", None)  # CPython 3.11


@contextmanager
def _started(import_path: list[str], preloaded: list[str]) -> Iterator[socket.socket]:
    """The door of a started process that forks, until the end of the block."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours:
        with theirs:
            given = json.dumps([theirs.fileno(), import_path, preloaded])
            process = subprocess.Popen(
                [sys.executable, "-c", BESIDE, given],
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                env=environment_of_forks(),
            )
        try:
            yield ours
        finally:
            process.kill()
            process.wait()


def beside() -> NoReturn:
    """The main of a process that is started to fork."""
    number, import_path, preloaded = json.loads(sys.argv[1])
    gc.disable()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for module in preloaded:
            import_module(module)
    _serve(socket.socket(fileno=number), import_path)


@dataclass(frozen=True)
class _Forks:
    """Stands for the call that starts a program."""

    door: Callable[[], socket.socket]
    modules: Collection[str]
    start: Callable[..., int]
    turn: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, command: list[Any], *rest: Any) -> int:
        _programs, _close, _keep, folder, environment, *pipes = rest
        arguments = [os.fsdecode(each) for each in command]
        if _module_of(arguments) not in self.modules:
            return self.start(command, *rest)
        # -1: the child has the parent's own.
        given = [own if end == -1 else end for own, end in enumerate((*pipes[0:1], *pipes[3:6:2]))]
        pairs = (os.fsdecode(each).split("=", 1) for each in environment or ())
        order = Order(
            arguments=arguments,
            folder=os.fsdecode(folder or Path.cwd()),
            environment=dict(pairs) if environment is not None else dict(os.environ),
            limits={each: resource.getrlimit(each) for each in LIMITS},
            priority=os.getpriority(os.PRIO_PROCESS, os.getpid()),
            umask=_umask(),
        )
        with self.turn:
            door = self.door()
            socket.send_fds(door, [pickle.dumps(order)], given)
            answer = int(door.recv(MAX_ORDER_BYTES))
        if answer == -errno.EINVAL:  # qemu's emulation of a process knows no CLONE_PARENT
            return self.start(command, *rest)
        if answer < 0:
            raise OSError(-answer, os.strerror(-answer))
        return answer


def _module_of(arguments: list[str]) -> str | None:
    """The module that a command has our interpreter run, with usual options."""
    program, *options = arguments
    options = options[len(STRICT) :] if options[: len(STRICT)] == STRICT else options
    is_module = program == sys.executable and options[:1] == ["-m"]
    return options[1] if is_module else None


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
    if order.arguments[1:3] == STRICT:
        warnings.simplefilter("error")
    module, *rest = order.arguments[order.arguments.index("-m") + 1 :]
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
