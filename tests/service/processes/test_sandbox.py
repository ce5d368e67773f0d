"""The sandbox, from inside: real children, and what hostile code in them is refused."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import DEADLINE_S, wait_until

from service.prediction.frames import Frame
from service.prediction.worker import PredictorProcess
from service.processes.children import Children
from service.processes.interpreter import APPLICATION
from service.settings import Settings
from service.training.protocol.messages.lines import encode
from service.training.protocol.messages.preparation import Prepare
from service.training.protocol.messages.unions import decode_message

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")

FORBIDDEN = {
    "a socket to the network": "socket.socket()",
    "a socket to programs of the device": "socket.socket(socket.AF_UNIX)",
    "io_uring": "checked(libc.syscall(425, 1, None))",
    "a file of the system": "open('/etc/passwd')",
    "a file beside the task's": "open(f'{folder}/../admin.token')",
    "the environment of the daemon": "open(f'/proc/{os.getppid()}/environ')",
    "a new file elsewhere": "open(f'{folder}/../new', 'w')",
    "a change of a file to read": "open(source, 'a')",
    "a shortened file": "os.truncate(source, 0)",
    "another name for a file": "os.link(f'{folder}/../admin.token', f'{folder}/token')",
    "a link to a file": "os.symlink('/etc/passwd', f'{folder}/link')",
    "the mode of a file": "os.chmod(f'{folder}/../admin.token', 0o666)",
    "the times of a file": "os.utime(source)",
    "a new process": "os.fork()",
    "a program": "os.execv('/bin/true', ['true'])",
    "a signal to the daemon": "os.kill(os.getppid(), 0)",
    "a signal to its group": "os.kill(0, 0)",
    "limits of the daemon": "resource.prlimit(os.getppid(), resource.RLIMIT_CPU)",
    "its priority": "os.setpriority(os.PRIO_PROCESS, os.getppid(), 19)",
    "its processors": "os.sched_setaffinity(os.getppid(), {0})",
    "its scheduling": "os.sched_setscheduler(os.getppid(), os.SCHED_IDLE, os.sched_param(0))",
    "a signal to its thread": "checked(libc.tgkill(os.getppid(), os.getppid(), 0))",
    "a signal to it through a pipe": "fcntl.fcntl(1, fcntl.F_SETOWN, os.getppid())",
    "a signal that a pipe sends": "fcntl.fcntl(1, fcntl.F_SETSIG, signal.SIGKILL)",
    "a signal to it by its input": "fcntl.ioctl(0, FIOSETOWN, struct.pack('i', os.getppid()))",
    "keys for a terminal": "fcntl.ioctl(0, termios.TIOCSTI, b'x')",
    "a trace of the daemon": "checked(libc.ptrace(16, os.getppid(), None, None))",
    "its memory": "checked(libc.process_vm_readv(os.getppid(), None, 0, None, 0, 0))",
    "its descriptors": "os.pidfd_open(os.getppid())",
    "the name of the device": "socket.sethostname(socket.gethostname())",
    "the clock": "time.clock_settime(time.CLOCK_REALTIME, time.time())",
    "a namespace": "checked(libc.unshare(CLONE_NEWUTS))",
    "shared memory": "checked(libc.shmget(1, 4096, 0o1600))",
    "more descriptors": "resource.setrlimit(resource.RLIMIT_NOFILE, (8192, 8192))",
}
ALLOWED = {
    "a thread": "threading.Thread(target=print, args=('',), kwargs={'end': ''}).start()",
    "the source": "open(source).read()",
    "a file of its own": "open(f'{folder}/made', 'w').write('made')",
    "a temporary file": "tempfile.TemporaryFile().close()",
    "another name of its own": "os.rename(f'{folder}/made', f'{folder}/done')",
    "processors": "open('/proc/cpuinfo').read()",
    "a late import": "__import__('onnxruntime')",
    "nothing at all": "open('/dev/null', 'w').write('x')",
    "a signal to itself": "os.kill(os.getpid(), 0)",
    "its own processors": "os.sched_setaffinity(0, os.sched_getaffinity(0))",
    "a helper beside the caller": "keep_aside()",
}
TRY = """
import ctypes, errno, fcntl, json, os, resource, signal, socket, struct, sys, tempfile, termios
import threading, time
from service.processes import seccomp
from service.training import __main__ as child
from service.training.engines.sessions.crew import Crew
from service.training.protocol.messages.shared import Failed

FIOSETOWN, CLONE_NEWUTS = 0x8901, 0x04000000
# uretprobe and uprobe of x86-64 answer with SIGILL, and the kernel asks no filter.
OF_PROBES = {335, 336} if os.uname().machine == "x86_64" else set()
libc = ctypes.CDLL(None, use_errno=True)

def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))

def passing():
    "Every call number that is not refused, but for those of the tables."
    tables = [*seccomp.ALLOWED.values(), *(each[0] for each in seccomp.LIMITED.values())]
    known = {seccomp.number_of(each, os.uname().machine) for each in (*tables, seccomp.CLONE)}
    for number in range(1024):
        if number not in known | OF_PROBES:
            result = libc.syscall(number, *[ctypes.c_long(-1)] * 6)
            if result != -1 or ctypes.get_errno() != errno.ENOSYS:
                yield number

def keep_aside():
    "A helper of the engine must be able to avoid the processor of its caller."
    crew, seen = Crew(), []
    crew.run([int, int])
    everywhere = os.sched_getaffinity(0)
    here = min(everywhere)
    os.sched_setaffinity(0, {here})
    crew.run([int, lambda: seen.append(os.sched_getaffinity(0))])
    if seen != [everywhere - {here} or everywhere]:
        raise OSError(errno.EPERM, "the helper was not placed")

def hostile(task, pipe):
    folder, source, tried = task.work_dir, task.source, {}
    for name, code in json.loads(sys.argv[1]).items():
        try:
            eval(code)
            tried[name] = "done"
        except (OSError, ValueError) as error:
            tried[name] = errno.errorcode.get(getattr(error, "errno", None), type(error).__name__)
    return Failed("tried", json.dumps(tried))

child.carry_out = hostile
sys.exit(child.main())
"""


@pytest.fixture
def attempts(tmp_path: Path) -> Callable[[dict[str, str]], dict[str, str]]:
    """What becomes of statements that a training child runs in the place of its task."""
    folder, source = tmp_path / "work", tmp_path / "model.onnx"
    folder.mkdir()
    source.write_text("a model")
    (tmp_path / "admin.token").write_text("secret")
    task = Prepare(str(source), "forward", str(folder), loss="cross_entropy")

    def run(statements: dict[str, str]) -> dict[str, str]:
        done = subprocess.run(
            [sys.executable, "-c", TRY, json.dumps(statements)],
            input=encode(task),
            capture_output=True,
            cwd=APPLICATION,
            check=True,
        )
        answer: Any = decode_message(done.stdout)
        tried: dict[str, str] = json.loads(answer.detail)
        return tried

    return run


def test_hostile_code_in_a_child_is_refused(
    attempts: Callable[[dict[str, str]], dict[str, str]],
) -> None:
    tried = attempts(FORBIDDEN)
    assert tried.keys() == FORBIDDEN.keys()
    # EXDEV: Landlock lets nothing be linked from one folder to another. ValueError is Python's word
    # for a limit that may not be raised.
    refused = ("EPERM", "EACCES", "ENOSYS", "EXDEV", "ValueError")
    assert [(name, how) for name, how in tried.items() if how not in refused] == []


def test_a_child_that_tries_every_call_number_gets_no_further_than_the_tables(
    attempts: Callable[[dict[str, str]], dict[str, str]], tmp_path: Path
) -> None:
    tried = attempts({"all": "open(f'{folder}/passed', 'w').write(json.dumps([*passing()]))"})
    assert tried == {"all": "done"}
    assert json.loads((tmp_path / "work" / "passed").read_text()) == []


def test_a_child_has_what_its_task_needs(
    attempts: Callable[[dict[str, str]], dict[str, str]],
) -> None:
    assert attempts(ALLOWED) == dict.fromkeys(ALLOWED, "done")


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("service.preprocess.thumbnail", ["64"]),
        (
            "service.prediction",
            [*("--threads", "1", "--sessions", "1", "--model-bytes", "1"), "--files", "/nowhere"],
        ),
    ],
)
def test_thumbnails_and_predictors_are_confined_before_they_read(
    module: str, arguments: list[str]
) -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-m", module, *arguments], cwd=APPLICATION, stdin=pipe, stderr=pipe
    ) as process:
        status = Path(f"/proc/{process.pid}/status")
        wait_until(lambda: "Seccomp:\t2" in status.read_text(), "the filter to be in force")
        process.communicate()


def test_a_predictor_opens_no_file_outside_of_its_folder(tmp_path: Path) -> None:
    async def ask() -> Frame:
        settings = Settings(data_dir=tmp_path)
        children = Children(memory_cap_bytes=None)
        process = await PredictorProcess.spawn(settings, children, files=tmp_path / "files")
        stranger = tmp_path / "admin.token"
        stranger.write_text("secret")
        file = {"sha256": "0" * 64, "path": str(stranger), "size_bytes": 6}
        answer = await process.ask(Frame({"file": file, "forget": False}), timeout_s=DEADLINE_S)
        await process.close()
        return answer

    (tmp_path / "files").mkdir()
    assert "Permission denied" in asyncio.run(ask()).header["error"]["detail"]


ASKS = """
import os, socket, sys
from pathlib import Path
from service.processes import sandbox
folder, port = sys.argv[1], int(sys.argv[2])
sandbox.enter(writable=[folder], network=True)
socket.create_connection(("localhost", port)).close()
attempts = {
    "the token": lambda: Path(folder, "../admin.token").read_bytes(),
    "a socket of the device": lambda: socket.socket(socket.AF_UNIX),
    "a new process": os.fork,
    "a listener": lambda: socket.create_server(("localhost", 0)),
}
for name, attempt in attempts.items():
    try:
        attempt()
    except OSError:
        continue
    sys.exit(f"allowed: {name}")
"""


def test_a_child_that_asks_a_source_reaches_the_network_and_nothing_of_the_device(
    tmp_path: Path,
) -> None:
    (tmp_path / "admin.token").write_text("secret")
    folder = tmp_path / "downloads"
    folder.mkdir()
    with socket.create_server(("localhost", 0)) as server:
        port = str(server.getsockname()[1])
        program = [sys.executable, "-c", ASKS, str(folder), port]
        subprocess.run(program, cwd=APPLICATION, check=True, timeout=DEADLINE_S)
