"""`honed top`: the device and its running job on a live screen."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import click

from cli.client import Client
from cli.commands.device.status import unfinished_jobs
from cli.errors import Failure
from cli.options import ClientCommand
from cli.output import echo_json, wants_json

EVERY_S = 1.0
LISTENING_S = 0.1
QUIT = ("q", "Q", "\x03", "\x04")
"""Includes what a terminal sends for Ctrl-C and Ctrl-D if it does not turn them into signals."""
PAGE = 1000


@click.command(cls=ClientCommand)
def top(client: Client) -> None:
    """Watch the device, the running job and its loss, until q or Ctrl-C.

    Where the output is no terminal, it is printed once.
    """
    watched = Watched(client)
    watched.look()
    if wants_json():
        echo_json(watched.facts)
        return
    from rich.console import Console

    from cli.commands.device.frame import frame

    console = Console(highlight=False)
    if not console.is_terminal:
        console.print(frame(watched.facts, console.size))
        return
    with suppress(KeyboardInterrupt):
        _show(watched, console)


class Watched:
    """The daemon's state, polled; of a curve only new points."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.facts: dict[str, Any] = {"endpoint": client.endpoint, "curve": [], "trouble": None}

    def look(self) -> None:
        """Poll once. Raises Failure."""
        get = self._client.get
        jobs = unfinished_jobs(self._client)
        shown = next(iter(jobs), None) or next(iter(get("/v1/jobs", limit=1)["items"]), None)
        before = self.facts.get("shown")
        is_same = before is not None and shown is not None and before["id"] == shown["id"]
        curve = self.facts["curve"] if is_same else []
        if shown is not None:
            curve = [*curve, *self._points(shown["id"], after=curve[-1][0] if curve else None)]
        answers = {"device": get("/v1/device"), "jobs": jobs, "shown": shown, "curve": curve}
        self.facts |= {**answers, "trouble": None}

    def try_again(self) -> None:
        """Poll once; a failure becomes one of the facts."""
        try:
            self.look()
        except Failure as failure:
            self.facts["trouble"] = failure.message

    def _points(self, job_id: int, *, after: int | None) -> list[tuple[int, float]]:
        """Steps and training losses of a job after a step."""
        path = f"/v1/jobs/{job_id}/metrics"
        points = self._client.items(path, after=after, limit=PAGE)
        losses = ((point["step"], point["values"].get("train_loss")) for point in points)
        return [(step, loss) for step, loss in losses if loss is not None]


def _show(watched: Watched, console: Any) -> None:
    """Draw a frame a second, and at once when the window changes, until a key ends it."""
    from rich.live import Live

    from cli.commands.device.frame import screen

    with (
        _keys() as pressed,
        Live(console=console, screen=True, auto_refresh=False) as live,
    ):
        while True:
            live.update(screen(watched.facts, console.size), refresh=True)
            size, until = console.size, time.monotonic() + EVERY_S
            while time.monotonic() < until and console.size == size:
                if pressed(LISTENING_S) in QUIT:
                    return
            if time.monotonic() >= until:
                watched.try_again()


@contextmanager
def _keys() -> Iterator[Callable[[float], str]]:
    """A function that waits a number of seconds for a key, "" for none. Restores the terminal."""
    if not sys.stdin.isatty():
        yield _no_key
    elif sys.platform == "win32":
        yield _windows_key
    else:
        import termios
        import tty

        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
        try:
            tty.setcbreak(descriptor)
            yield _posix_key
        finally:
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)


def _no_key(wait_s: float) -> str:
    time.sleep(wait_s)
    return ""


def _posix_key(wait_s: float) -> str:
    import os
    import select

    ready, _, _ = select.select([sys.stdin], [], [], wait_s)
    # An end of file, for example of a closed window, quits too.
    return (os.read(sys.stdin.fileno(), 1).decode("latin-1") or QUIT[0]) if ready else ""


def _windows_key(wait_s: float) -> str:
    import msvcrt

    time.sleep(wait_s)
    return msvcrt.getwch() if msvcrt.kbhit() else ""  # type: ignore[attr-defined,unused-ignore]
