"""The daemon as a process of its own, forked where its modules are loaded already.

To import them takes a second of a processor, to start the daemon itself a tenth. What a start from
the command line is like, tests/cli and tests/installation ask of the program itself.
"""

from __future__ import annotations

import ctypes
import gc
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Protocol

from wine import Windows

from cli.signals import press_ctrl_c
from service.processes.interpreter import WITHOUT_CONSOLE
from service.training.limits import THREAD_VARIABLES

IMPORTED_BY_CHILDREN = [
    *("onnx", "onnxruntime", "numpy.ma", "numpy.random", "service.prediction.loaded_models"),
    *("service.preprocess.pictures", "service.processes.landlock", "service.training.confinement"),
    *("service.training.engines.sessions.engine", "service.training.evaluation.drift"),
    *("service.training.evaluation.evaluate", "service.training.evaluation.ranking"),
    *("service.training.export.convert", "service.training.job"),
    *("service.training.engines.model_file", "service.training.engines.stored_weights"),
    *("service.training.preparation.prepare", "service.training.evaluation.metrics"),
    *("httpx", "service.follow.messages", "first_session"),
]
PRELOADED = [
    *("api.server", "cli.main", "cli.commands.serve", __name__, "child_forks"),
    *("anyio._backends._asyncio", "jeepney.io.blocking"),
    *("apscheduler.executors.asyncio", "apscheduler.triggers.interval", "fastapi_swagger"),
    *("tomllib", "uvicorn.lifespan.off", "uvicorn.loops.auto"),
    *IMPORTED_BY_CHILDREN,
]
"""What daemons import, and what their children do."""
WINE = sys.platform == "win32" and hasattr(ctypes.windll.ntdll, "wine_get_version")
"""Whether this Windows is Wine."""
SIGKILL: int = getattr(signal, "SIGKILL", 9)
"""Which Windows has under another name."""
FORKS_CHILDREN = "forks children"
"""The command line of the process beside a daemon that does."""
DECIDED_AT_EXEC = "LD_PRELOAD"
"""A variable of the environment that only a new program heeds."""


class Process(Protocol):
    """What tests ask of it, as of `subprocess.Popen`."""

    pid: int

    def poll(self) -> int | None: ...
    def wait(self, timeout: float | None = None) -> int: ...
    def send_signal(self, sig: int) -> None: ...


def start_daemon(arguments: list[str], environment: Mapping[str, str], log: Path) -> Process:
    """Run `honed` with these arguments; what it says is added to the log.

    HONE_DAEMONS_IN: the root of tests/platforms/windows to run it in; its data are on that C:.
    """
    if root := os.environ.get("HONE_DAEMONS_IN"):
        return Windows(Path(root)).start_daemon(arguments, environment, log)
    if sys.platform == "linux" and DECIDED_AT_EXEC not in environment:
        return Forked(arguments, environment, log)
    return start_program(arguments, environment, log)


def end(process: Process, how: int) -> None:
    """Send it a signal; on Windows SIGTERM and SIGINT are Ctrl-C in its console, others kill."""
    if sys.platform == "win32" and how in {signal.SIGTERM, signal.SIGINT}:
        press_ctrl_c(process.pid)
    else:
        process.send_signal(how if sys.platform != "win32" else signal.SIGTERM)


def start_program(arguments: list[str], environment: Mapping[str, str], log: Path) -> Process:
    """As `start_daemon`, with an interpreter of its own, as its users start it."""
    with log.open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "honed", *arguments],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            creationflags=WITHOUT_CONSOLE,
        )


class Forked:
    """A daemon of the server of forks, which the first one starts."""

    def __init__(self, arguments: list[str], environment: Mapping[str, str], log: Path) -> None:
        context = multiprocessing.get_context("forkserver")
        # Called a daemon, it does not keep the tests from ending where one has failed.
        self._process = context.Process(
            target=_run, args=(arguments, dict(environment), log, import_path()), daemon=True
        )
        with _environment(environment_of_forks()):
            context.set_forkserver_preload(PRELOADED)
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        """The exit code, once it has ended."""
        return self._process.exitcode

    def wait(self, timeout: float | None = None) -> int:
        """The exit code. Raises TimeoutExpired."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            raise subprocess.TimeoutExpired("honed", timeout or 0)
        return code

    def send_signal(self, sig: int) -> None:
        """Nothing once it has ended."""
        if self.poll() is None:
            os.kill(self.pid, sig)


@cache
def import_path() -> list[str]:
    """`sys.path` of an interpreter of the program, without its working folder."""
    asked = [sys.executable, "-c", "import json, sys; print(json.dumps(sys.path[1:]))"]
    given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    path: list[str] = json.loads(subprocess.check_output(asked, env=given))
    return path


def environment_of_forks() -> dict[str, str]:
    """The environment for a process that forks, which finds what this one imports.

    numpy has one thread: a fork would not have the others. /proc shows this environment for each
    fork, so it has no setting of a test.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HONED_")}
    found = os.pathsep.join(map(os.path.abspath, filter(None, sys.path)))
    return kept | dict.fromkeys(THREAD_VARIABLES, "1") | {"PYTHONPATH": found}


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """The environment of what is started within the block."""
    before = dict(os.environ)
    os.environ.clear()
    os.environ.update(variables)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


def _run(
    arguments: list[str], environment: dict[str, str], log: Path, path_of_children: list[str]
) -> None:
    from child_forks import fork_children

    from cli.main import main

    gc.freeze()
    os.environ.clear()
    os.environ.update(environment)
    time.tzset()
    descriptor = os.open(log, os.O_WRONLY | os.O_APPEND)
    for standard in (sys.stdout, sys.stderr):
        os.dup2(descriptor, standard.fileno())
    os.close(descriptor)
    fork_children(path_of_children, name=FORKS_CHILDREN)
    sys.argv = ["honed", *arguments]
    main()
