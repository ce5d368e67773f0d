"""Signals from the operating system to a command."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from service.processes.interpreter import own_interpreter

_CTRL_C = """
import ctypes, sys
kernel = ctypes.windll.kernel32
kernel.FreeConsole()
is_sent = (
    kernel.AttachConsole(int(sys.argv[1]))
    and kernel.SetConsoleCtrlHandler(None, True)
    and kernel.GenerateConsoleCtrlEvent(0, 0)
)
sys.exit(not is_sent)
"""


@contextmanager
def console_ends(asked_to_stop: threading.Event) -> Iterator[None]:
    """On Windows all that ends programs of a console sets the event instead, during the block.

    That is Ctrl-C, Ctrl-Break, closing the window, logging off and a shutdown. After the last three
    Windows ends the process as soon as it has been told, so that the block ends first.
    """
    if sys.platform != "win32":
        yield
        return
    ended = threading.Event()

    @ctypes.WINFUNCTYPE(ctypes.c_int, ctypes.c_ulong)
    def told(what: int) -> int:
        asked_to_stop.set()
        if what not in {signal.CTRL_C_EVENT, signal.CTRL_BREAK_EVENT}:
            ended.wait()
        return True

    ctypes.windll.kernel32.SetConsoleCtrlHandler(told, True)
    try:
        yield
    finally:
        ended.set()
        ctypes.windll.kernel32.SetConsoleCtrlHandler(told, False)


def press_ctrl_c(pid: int) -> bool:
    """As Ctrl-C in the console of a process; whether Windows sent it.

    By a process of its own, as one has one console at a time. Start the other with WITHOUT_CONSOLE:
    it gets a console that nobody sees, and that nothing else is in.
    """
    program, variables = own_interpreter()
    command = [program, "-c", _CTRL_C, str(pid)]
    environment = {**os.environ, **variables}
    return subprocess.run(command, env=environment, check=False).returncode == 0


@contextmanager
def interrupts_deferred() -> Iterator[None]:
    """SIGINT and SIGTERM wait for the end of the block, so that its results are recorded."""
    waiting: list[int] = []
    before = {
        number: signal.signal(number, lambda received, _frame: waiting.append(received))
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        for arrived in waiting:
            signal.raise_signal(arrived)
