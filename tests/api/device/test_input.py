"""Reports of input from inside sessions: whom they come from, what they do, what a lie does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from support import DEADLINE_S, Served, client, wait_until
from watcher import Watcher

from service.device import login_sessions
from service.device.login_sessions import Session

PATH = "/v1/device/input"
DAY_S = 86400.0
OUTER = 1
"""The session of a process whose leader lies outside of this PID namespace, which says 0 of it.

In a container's CI that is pytest's own. On Windows 0 is the session of services.
"""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="POSIX sessions stand in")


class PosixSessions:
    """Sessions of POSIX in the place of those of Windows; who is logged in, the test says."""

    def __init__(self) -> None:
        self.present: list[Session] = []

    def sessions(self) -> list[Session]:
        return list(self.present)

    def session_of(self, pid: int) -> int:
        return os.getsid(pid) or OUTER

    def idle_s(self, _: int) -> float | None:
        return None

    def uptime_s(self) -> float:
        return DAY_S


@pytest.fixture
def table(monkeypatch: pytest.MonkeyPatch) -> PosixSessions:
    table = PosixSessions()
    monkeypatch.setattr("service.policy.device_monitor.platform_table", lambda: table)
    return table


@pytest.fixture
def inside(table: PosixSessions, serve_inside: Callable[..., Any]) -> Any:
    """A daemon that wants the device idle for three minutes, as it would be on Windows."""
    inside = serve_inside()
    changes = {"require_idle": True, "idle_minutes": 3}
    assert ask(inside, "PUT", "/v1/policy", json=changes).status_code == 200
    return inside


@pytest.fixture
def watch(
    inside: Any, table: PosixSessions, tmp_path: Path
) -> Iterator[Callable[[str, float], Watcher]]:
    """Somebody logs in, and the helper runs in the session: watch("anna", idle_s)."""
    started: list[Watcher] = []

    def start(user: str, idle_s: float) -> Watcher:
        watcher = Watcher(tmp_path / user, inside.url, idle_s=idle_s)
        started.append(watcher)
        table.present.append(Session(watcher.session, user))
        return watcher

    yield start
    for watcher in started:
        watcher.stop()


def ask(inside: Any, method: str, path: str, **options: object) -> httpx.Response:
    with client(inside.url, token=inside.token) as http:
        return http.request(method, path, **options)


def device(inside: Any) -> dict:
    return ask(inside, "GET", "/v1/device").json()


def idle_s(inside: Any) -> float | None:
    return device(inside)["signals"]["user_idle_s"]["value"]


def put(url: str, query: str = "?idle_seconds=5", **headers: str) -> httpx.Response:
    """A report without a token, from this process."""
    with client(url) as http:
        return http.put(f"{PATH}{query}", headers=headers)


def test_helpers_in_two_sessions_make_the_device_idle_and_a_key_in_one_makes_it_used(
    inside: Any, watch: Callable[[str, float], Watcher]
) -> None:
    anna = watch("anna", 600)
    bert = watch("bert", 400)
    wait_until(lambda: 400 <= (idle_s(inside) or 0) < 460, "both helpers to report")
    assert device(inside)["eligible"] is True

    anna.touch()
    wait_until(lambda: not device(inside)["eligible"], "the key to be seen")

    (blocker,) = device(inside)["blocked_by"]
    assert blocker["condition"] == "user_idle"
    seconds = idle_s(inside)
    assert seconds is not None
    assert seconds < 60
    assert (anna.stop(), bert.stop()) == (0, 0)
    assert anna.said() == bert.said() == []


def test_a_helper_that_is_killed_makes_idle_unknown_and_blocks(
    inside: Any,
    watch: Callable[[str, float], Watcher],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    anna = watch("anna", 600)
    wait_until(lambda: 600 <= (idle_s(inside) or 0) < 660, "the helper to report")
    wait_until(lambda: device(inside)["eligible"], "the verdict")

    anna.process.kill()
    anna.process.wait()
    monkeypatch.setattr(login_sessions, "REPORT_HOLDS_S", 0.1)
    wait_until(lambda: not device(inside)["eligible"], "the report to grow old")

    detail = device(inside)["signals"]["user_idle_s"]["detail"]
    assert idle_s(inside) is None
    assert detail == (
        f"session {anna.session} of anna does not report its input; run `honed watch-input` in it"
    )


def test_a_report_counts_for_the_session_of_the_process_and_for_no_other(
    inside: Any, table: PosixSessions, watch: Callable[[str, float], Watcher]
) -> None:
    """A process in another session says that it is the one behind somebody else's connection."""
    watch("anna", 600)
    wait_until(lambda: 600 <= (idle_s(inside) or 0) < 660, "the helper to report")
    table.present.append(Session(table.session_of(os.getpid()), "bert"))
    wait_until(lambda: idle_s(inside) is None, "bert to be seen")
    program = (
        "import http.client, sys\n"
        "connection = http.client.HTTPConnection(sys.argv[1])\n"
        "headers = {'X-Forwarded-For': sys.argv[2], 'Forwarded': f'for=\"{sys.argv[2]}\"'}\n"
        f"connection.request('PUT', '{PATH}?idle_seconds=500', headers=headers)\n"
        "print(connection.getresponse().status)"
    )
    place = urlsplit(inside.url)
    with socket.create_connection((place.hostname, place.port)) as bert:
        address = "{}:{}".format(*bert.getsockname())
        command = [sys.executable, "-c", program, place.netloc, address]
        lied = subprocess.run(
            command, capture_output=True, text=True, check=True, start_new_session=True
        )
    assert lied.stdout.split() == ["204"]
    assert ask(inside, "POST", "/v1/resume").status_code == 200  # has the device looked at anew
    assert idle_s(inside) is None
    assert "of bert does not report" in device(inside)["signals"]["user_idle_s"]["detail"]

    assert put(inside.url, "?idle_seconds=450").status_code == 204
    wait_until(lambda: 450 <= (idle_s(inside) or 0) < 480, "bert's own report")


@pytest.mark.parametrize(
    "query",
    ["?idle_seconds=" + value for value in ("", "soon", "-1", "nan", "inf", "1e300", "5e9")],
)
def test_a_report_that_is_no_time_is_refused_with_its_place(served: Served, query: str) -> None:
    answer = served.http.put(f"{PATH}{query}")
    assert answer.status_code == 422
    assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/query/idle_seconds"]


def test_where_the_platform_needs_no_helper_a_report_is_refused(served: Served) -> None:
    answer = served.http.put(f"{PATH}?idle_seconds=5")
    assert (answer.status_code, answer.json()["code"]) == (403, "no_session")
    assert put(served.url).status_code == 401


def test_a_web_page_reports_nothing(inside: Any) -> None:
    assert put(inside.url, Origin="http://evil.example").json()["code"] == "foreign_origin"
    assert put(inside.url, **{"Sec-Fetch-Site": "cross-site"}).json()["code"] == "foreign_origin"
    assert put(inside.url, Host="evil.example").status_code == 421


@pytest.mark.parametrize("method", ["GET", "POST", "DELETE", "PATCH"])
def test_the_open_path_takes_reports_and_nothing_else(inside: Any, method: str) -> None:
    with client(inside.url) as http:
        assert http.request(method, PATH).status_code == 405


def test_a_body_is_never_waited_for(inside: Any) -> None:
    place = urlsplit(inside.url)
    with socket.create_connection((place.hostname, place.port), timeout=DEADLINE_S) as connection:
        head = f"PUT {PATH}?idle_seconds=5 HTTP/1.1\r\nHost: {place.netloc}\r\n"
        connection.sendall(f"{head}Content-Length: 3000000000\r\n\r\n12345".encode())
        assert connection.recv(64).startswith(b"HTTP/1.1 204")
