from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support import DEADLINE_S

from cli.client import Client
from cli.commands.device.frame import curve

pty, termios = map(pytest.importorskip, ("pty", "termios"))
ALTERNATE_SCREEN, MAIN_SCREEN = b"\x1b[?1049h", b"\x1b[?1049l"


class Terminal:
    """`honed top` on a terminal of its own. columns: its width."""

    def __init__(self, variables: dict[str, str], columns: int) -> None:
        self.ours, theirs = pty.openpty()
        self.before = termios.tcgetattr(self.ours)
        size = {"COLUMNS": str(columns), "LINES": "24", "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "honed", "top"],
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, **variables, **size},
            start_new_session=True,
        )
        os.close(theirs)
        self.written = b""

    def read_until(self, wanted: bytes) -> None:
        """Read what it draws until this is among it."""
        deadline = time.monotonic() + DEADLINE_S
        while wanted not in self.written:
            assert time.monotonic() < deadline, self.written[-2000:]
            if select.select([self.ours], [], [], 1.0)[0]:
                self.written += os.read(self.ours, 65536)


@pytest.fixture
def open_terminal(variables: dict[str, str]) -> Iterator[Callable[[int], Terminal]]:
    opened: list[Terminal] = []

    def start(columns: int) -> Terminal:
        opened.append(Terminal(variables, columns))
        return opened[-1]

    yield start
    for terminal in opened:
        terminal.process.kill()
        terminal.process.wait()
        os.close(terminal.ours)


@pytest.mark.parametrize("ending", ["q", "ctrl-c", "sigterm"])
def test_top_ends_on_request_and_leaves_the_terminal_as_it_was(
    open_terminal: Callable[[int], Terminal], ending: str
) -> None:
    terminal = open_terminal(100)
    terminal.read_until(b"q quits")
    assert ALTERNATE_SCREEN in terminal.written
    assert not termios.tcgetattr(terminal.ours)[3] & termios.ICANON
    if ending == "q":
        os.write(terminal.ours, b"q")
    else:
        terminal.process.send_signal(signal.SIGINT if ending == "ctrl-c" else signal.SIGTERM)
    terminal.read_until(MAIN_SCREEN)
    assert terminal.process.wait(DEADLINE_S) == 0
    assert termios.tcgetattr(terminal.ours)[3] == terminal.before[3]
    assert b"Traceback" not in terminal.written


def test_top_fits_a_narrow_terminal_and_shows_the_job(
    open_terminal: Callable[[int], Terminal],
    honed: Callable[..., Any],
    client: Client,
    add_model: Callable[..., str],
) -> None:
    model = add_model(samples=200)
    job = json.loads(honed("train", model, "--max-steps", 10**6, "--now", "--json").stdout)
    terminal = open_terminal(40)
    terminal.read_until(f"job {job['id']} of".encode())
    terminal.read_until("█".encode())
    terminal.read_until(b"q quits")  # however much there is to show
    client.post(f"/v1/jobs/{job['id']}/cancel")


def test_without_a_terminal_one_frame_is_printed(honed: Callable[..., Any]) -> None:
    done = honed("top", COLUMNS="60")
    assert done.returncode == 0
    assert "trains: " in done.stdout
    assert "\x1b" not in done.stdout
    assert max(map(len, done.stdout.splitlines())) <= 60


def test_a_curve_falls_from_its_first_column_to_its_last() -> None:
    lines = curve([float(value) for value in range(80, 0, -1)], width=8, rows=2)
    assert lines == ["█▆▄▂    ", "████▇▅▃▁"]
    assert curve([1.0, 1.0], width=4, rows=2) == ["    ", "▁▁▁▁"]
