"""`honed watch-input`: reports to the daemon when keyboard, mouse or touch were last used."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from urllib.parse import urlsplit

import click
from msgspec import Struct

from cli.client import Client
from cli.errors import Failure
from cli.output import echo_text

POLL_S = 1.0
MOVED_S = 5.0
"""Input this soon after a reported one is not reported: typing would cause one every second."""
REPORT_EVERY_S = 15.0
TIMEOUT_S = 5.0
MAX_ANSWER_BYTES = 65536


@click.command("watch-input")
@click.pass_obj
def watch_input(client: Client) -> None:
    """Tell the daemon when this session's person used the device last, until stopped (Ctrl-C).

    For Windows, where a daemon that runs as a service sees nobody's input: run it in each session;
    windows/watch-input.xml starts it at logon. It needs no token, and tells the seconds since the
    last input and nothing else.
    """
    from service.device.windows import last_input

    watch = Watch()
    trouble = ""
    with suppress(KeyboardInterrupt):
        while True:
            idle_s = _idle_s(last_input.seconds_since_input)
            if watch.is_due(idle_s, time.monotonic()):
                before, trouble = trouble, _tell(client.url, idle_s)
                if trouble != before:
                    echo_text(trouble or "the daemon takes reports again", err=True)
            time.sleep(POLL_S)


class Watch(Struct):
    """When to report: at the first input after a pause, every 5 s while more follows, every 15 s.

    Times are seconds of a monotonic clock.
    """

    reported_at_s: float | None = None
    reported_input_s: float = 0.0

    def is_due(self, idle_s: float, now_s: float) -> bool:
        """Whether to report now; if so, it counts as reported: a lost report is not repeated."""
        last_input_s = now_s - idle_s
        due = (
            self.reported_at_s is None
            or now_s - self.reported_at_s >= REPORT_EVERY_S
            or last_input_s - self.reported_input_s >= MOVED_S
        )
        if due:
            self.reported_at_s, self.reported_input_s = now_s, last_input_s
        return due


def _idle_s(seconds_since_input: Callable[[], float]) -> float:
    try:
        return seconds_since_input()
    except OSError as error:
        raise Failure(str(error)) from error


def _tell(url: str, idle_s: float) -> str:
    """Report once. Returns why it was lost, or "". Raises Failure if retrying is useless."""
    connection = _connection(url)
    try:
        connection.request("PUT", f"/v1/device/input?idle_seconds={idle_s:.3f}")
        response = connection.getresponse()
        answer = response.read(MAX_ANSWER_BYTES)
    except (OSError, HTTPException) as error:
        return f"no daemon answers at {url} ({error}); trying again"
    finally:
        connection.close()
    if response.status == HTTPStatus.SERVICE_UNAVAILABLE:
        return f"the daemon at {url} is starting or stopping; trying again"
    if response.status != HTTPStatus.NO_CONTENT:
        raise Failure(f"the daemon at {url} takes no report: {_detail(answer, response.reason)}")
    return ""


def _connection(url: str) -> HTTPConnection:
    """A connection that is not yet open."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        host = None
    if host is None or parts.scheme != "http":
        raise Failure(f"--url {url}: it looks like http://127.0.0.1:8471")
    return HTTPConnection(host, port, timeout=TIMEOUT_S)


def _detail(answer: bytes, reason: str) -> str:
    """The detail of a problem document, or the reason phrase of another program's answer."""
    try:
        return str(json.loads(answer)["detail"])
    except (ValueError, KeyError, TypeError):
        return reason
