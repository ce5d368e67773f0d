from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from watcher import Watcher

from cli.commands.device.watch_input import Watch
from cli.demo.daemon import DaemonProcess
from cli.main import honed as group

elsewhere = pytest.mark.skipif(sys.platform == "win32", reason="Windows tells its input")


@pytest.fixture
def watch(tmp_path: Path) -> Iterator[Callable[..., Watcher]]:
    """Start helpers in sessions of their own."""
    started: list[Watcher] = []

    def start(url: str, *, idle_s: float = 0.0) -> Watcher:
        started.append(Watcher(tmp_path / f"session{len(started)}", url, idle_s=idle_s))
        return started[-1]

    yield start
    for watcher in started:
        watcher.stop()


class Restarting(BaseHTTPRequestHandler):
    """A daemon that is still starting when it is first asked."""

    paths: list[str]

    def do_PUT(self) -> None:
        self.paths.append(self.path)
        self.send_response(503 if len(self.paths) == 1 else 204)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def restarting() -> Iterator[tuple[str, list[str]]]:
    """Its address, and the paths that it was asked for."""
    Restarting.paths = []
    with HTTPServer(("127.0.0.1", 0), Restarting) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", Restarting.paths
        server.shutdown()
        thread.join()


def reports(last_inputs_s: Callable[[int], float], *, seconds: int) -> list[int]:
    """The seconds at which it reports; last_inputs_s: when the last input was, by second."""
    watch = Watch()
    return [now for now in range(seconds) if watch.is_due(now - last_inputs_s(now), float(now))]


def test_without_input_it_reports_every_fifteen_seconds() -> None:
    assert reports(lambda _: -600, seconds=46) == [0, 15, 30, 45]


def test_the_first_input_after_a_pause_is_told_at_once() -> None:
    assert reports(lambda now: 7.5 if now >= 8 else -600, seconds=23) == [0, 8]


def test_while_somebody_types_it_reports_every_five_seconds() -> None:
    assert reports(lambda now: now - 0.25, seconds=16) == [0, 5, 10, 15]


@elsewhere
def test_on_another_platform_it_says_where_it_works() -> None:
    done = CliRunner().invoke(group, ["--url", "http://127.0.0.1:1", "watch-input"])
    assert done.exit_code == 1
    assert "input is watched on Windows alone" in done.stderr


@elsewhere
def test_a_daemon_that_takes_no_reports_ends_it_with_the_reason(
    daemon: DaemonProcess, watch: Callable[..., Watcher]
) -> None:
    watcher = watch(daemon.client.url)
    assert watcher.process.wait(60) == 1
    (line,) = watcher.said()
    assert "takes no report: send a token" in line


def test_a_daemon_that_is_away_is_told_once_and_not_given_up(
    watch: Callable[..., Watcher], wait_for: Callable[..., Any]
) -> None:
    watcher = watch("http://127.0.0.1:1")
    (line,) = wait_for(watcher.said, what="the first attempt")
    assert line.startswith("no daemon answers at http://127.0.0.1:1 (")
    assert watcher.process.poll() is None
    assert watcher.stop() == 0
    assert watcher.said() == [line]


def test_it_says_when_reports_are_taken_again(
    watch: Callable[..., Watcher],
    restarting: tuple[str, list[str]],
    wait_for: Callable[..., Any],
) -> None:
    url, paths = restarting
    watcher = watch(url, idle_s=600)
    wait_for(lambda: paths, what="the first report")
    watcher.touch()
    wait_for(lambda: len(watcher.said()) == 2, what="both lines")
    assert watcher.said() == [
        f"the daemon at {url} is starting or stopping; trying again",
        "the daemon takes reports again",
    ]
    assert paths[0].startswith("/v1/device/input?idle_seconds=60")
    assert float(paths[1].rpartition("=")[2]) < 5


@pytest.mark.parametrize(
    "url", ["https://127.0.0.1:1", "http:///path", "127.0.0.1:8471", "http://a:b"]
)
def test_an_address_that_cannot_be_one_is_said(watch: Callable[..., Watcher], url: str) -> None:
    watcher = watch(url)
    assert watcher.process.wait(60) == 1
    assert watcher.said() == [f"error: --url {url}: it looks like http://127.0.0.1:8471"]
