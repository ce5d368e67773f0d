"""A real daemon for the demo: a child process `honed serve` on a free port."""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct

from cli.client import Client
from cli.errors import Failure
from cli.signals import interrupts_deferred, press_ctrl_c
from service.processes.interpreter import APPLICATION, WITHOUT_CONSOLE, command, environment

START_TIMEOUT_S = 120.0
"""Emulated processors need more than half a minute."""
STOP_TIMEOUT_S = 15.0
POLL_S = 0.05
LAST_LOG_LINES = 20
ANNOUNCEMENT = re.compile(r"listens on (http://\S+)")
"""What `honed serve` prints once it answers requests."""


class DaemonProcess(Struct, frozen=True):
    """A running daemon."""

    process: subprocess.Popen[bytes]
    client: Client
    token_file: Path
    ready_s: float


def start(folder: Path, owner: ExitStack) -> DaemonProcess:
    """Start a daemon that keeps all its data in `folder`, and wait until it is ready.

    owner: stops it when closed, whatever happens from now on. The daemon ignores this machine's
    honed settings and Ctrl-C in this terminal. Raises Failure with its last log lines if it does
    not start.
    """
    began = time.monotonic()
    log = folder / "daemon.log"
    with interrupts_deferred():
        process = _spawn(folder, log)
        owner.callback(stop, process)
    url = _announced_url(process, log)
    token_file = folder / "admin.token"
    client = Client(url=url, token=token_file.read_text(encoding="ascii").strip())
    owner.callback(client.close)
    return DaemonProcess(process, client, token_file, ready_s=time.monotonic() - began)


@contextmanager
def running(folder: Path) -> Iterator[DaemonProcess]:
    """A daemon that is stopped when the block ends."""
    with ExitStack() as owner:
        yield start(folder, owner)


def stop(process: subprocess.Popen[bytes]) -> None:
    """Ask a daemon to stop; kill it if it does not."""
    if process.poll() is not None:
        return
    if sys.platform == "win32":
        press_ctrl_c(process.pid)
    else:
        process.terminate()
    try:
        process.wait(STOP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _spawn(folder: Path, log: Path) -> subprocess.Popen[bytes]:
    config = folder / "honed.toml"
    config.touch()  # a file that is named must exist
    with log.open("wb") as output:
        return subprocess.Popen(
            command("honed", "serve", "--port", "0", "--data-dir", str(folder)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            cwd=APPLICATION,
            env=_environment(config),
            start_new_session=True,
            creationflags=WITHOUT_CONSOLE,
        )


def _environment(config: Path) -> dict[str, str]:
    kept = {name: value for name, value in environment().items() if not name.startswith("HONED_")}
    return {
        **kept,
        "HONED_CONFIG": str(config),
        "HONED_TRAINING_NICE": "0",  # a person waits, and a busy device leaves a nice job little
        "PYTHONUNBUFFERED": "1",
        "PYTHONUTF8": "1",
    }


def _announced_url(process: subprocess.Popen[bytes], log: Path) -> str:
    """Its URL, which it prints once it takes work. Raises Failure."""
    deadline = time.monotonic() + START_TIMEOUT_S
    while True:
        text = log.read_text(encoding="utf-8", errors="replace")
        if match := ANNOUNCEMENT.search(text):
            return match[1]
        last_lines = "\n".join(text.splitlines()[-LAST_LOG_LINES:])
        if process.poll() is not None:
            raise Failure(f"the daemon ended with exit code {process.returncode}:\n{last_lines}")
        if time.monotonic() > deadline:
            raise Failure(f"the daemon was not ready after {START_TIMEOUT_S:g} s:\n{last_lines}")
        time.sleep(POLL_S)
