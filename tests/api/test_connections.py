"""What connections that never ask may cost: real sockets, the usual limit of descriptors."""

from __future__ import annotations

import os
import resource
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import Mock
from urllib.parse import urlsplit

import httpx
import psutil
import pytest
from fastapi import FastAPI
from hostile_http import slow_reader
from support import DEADLINE_S, Served, blobs, client, mlp, wait_until

from api.connections import MAX_WAIT_S
from api.protocol import make_room
from api.server import _configured
from service.settings import Settings

pytestmark = pytest.mark.skipif(os.name != "posix", reason="descriptor limits are POSIX")

USUAL_LIMIT = 1024
SILENT = 1100
PROBES = 20


@pytest.fixture
def limited(serve: Callable[..., Served]) -> Iterator[Served]:
    """A daemon at the usual limit of descriptors; this process may open more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8 * SILENT), hard))
    served = serve()
    resource.prlimit(served.process.pid, resource.RLIMIT_NOFILE, (USUAL_LIMIT, USUAL_LIMIT))
    yield served
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


STARTED_BELOW = """
import resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 2048))
sys.argv = ["honed", "serve", "--port", "0", "--data-dir", sys.argv[1]]
from cli.main import main
main()
"""


def test_a_daemon_may_open_as_many_files_as_the_system_allows(tmp_path: Path) -> None:
    kept = {k: v for k, v in os.environ.items() if not k.startswith("HONED_")}
    daemon = subprocess.Popen(
        [sys.executable, "-c", STARTED_BELOW, str(tmp_path / "data")],
        env={**kept, "HONED_CONFIG": os.devnull},
        stdout=subprocess.PIPE,
        text=True,
    )
    with daemon:
        assert daemon.stdout is not None
        line = daemon.stdout.readline()
        limits = resource.prlimit(daemon.pid, resource.RLIMIT_NOFILE)
        daemon.terminate()
    assert "listens on" in line
    assert limits == (2048, 2048)


def connect(served: Served, said: bytes = b"") -> socket.socket:
    """A connection that says this much and then nothing."""
    address = urlsplit(served.url)
    connection = socket.create_connection((address.hostname, address.port), timeout=DEADLINE_S)
    connection.sendall(said)
    return connection


def seconds_to_answer(served: Served) -> float:
    """A health check over a connection of its own."""
    with client(served.url) as fresh:
        began = time.perf_counter()
        assert fresh.get("/healthz").status_code == 200
        return time.perf_counter() - began


def is_closed(connection: socket.socket) -> bool:
    """Whether the daemon has ended it."""
    connection.setblocking(False)
    try:
        return connection.recv(1) == b""
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


def test_silent_connections_neither_stop_answers_nor_lose_a_job(limited: Served) -> None:
    limited.register("m", mlp(4, 8, 3))
    limited.upload("m", **blobs(60, 4, 3))
    with ExitStack() as silent:
        for _ in range(SILENT):
            silent.enter_context(connect(limited))
        seconds = [seconds_to_answer(limited) for _ in range(PROBES)]
        job = limited.train("m", epochs=1)
    assert job["restarts"] == 0
    assert statistics.median(seconds) <= 0.1, seconds
    assert "Too many open files" not in limited.log.read_text("utf-8")


def test_an_administrator_who_has_them_all_lets_a_new_one_in_where_few_may_be_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (64, 64))
    held = [Mock(holder="admin", is_reserved=True, since=since) for since in range(16)]
    new = Mock(holder="nobody", is_reserved=False, since=16)
    make_room([*held, new])
    assert [each.since for each in (*held, new) if each.abort.called] == [0]


def test_who_waits_for_an_event_or_a_version_is_not_closed(
    limited: Served, promote: Callable[[Served, str], int]
) -> None:
    limited.register("m", mlp(4, 8, 3))
    token = f"Authorization: Bearer {limited.token}\r\n\r\n"
    host = f"Host: {urlsplit(limited.url).netloc}\r\n"
    latest = limited.http.get("/v1/models/m/latest").headers["etag"]
    asked = [
        f"GET /v1/events HTTP/1.1\r\n{host}{token}",
        f"GET /v1/models/m/latest?wait=300 HTTP/1.1\r\nIf-None-Match: {latest}\r\n{host}{token}",
    ]
    with ExitStack() as connections:
        waiting = [connections.enter_context(connect(limited, text.encode())) for text in asked]
        assert waiting[0].recv(4096).startswith(b"HTTP/1.1 200")
        oldest = connections.enter_context(connect(limited))
        for _ in range(SILENT):
            connections.enter_context(connect(limited))
        wait_until(lambda: is_closed(oldest), "the oldest silent connection to be closed")
        assert seconds_to_answer(limited) < 30
        assert not any(is_closed(connection) for connection in waiting)


IDLE = {"nothing": b"", "a part": b"GET /healthz HTTP/1.1\r\nHost: "}
STALLED = {
    "answers": "GET /docs/assets/swagger-ui-bundle.js HTTP/1.1\r\n{host}\r\n" * 20,
    "file": "GET /v1/models/large/latest/model.onnx HTTP/1.1\r\n{host}{token}\r\n",
    "body": "POST /v1/models/large/samples HTTP/1.1\r\n{host}{token}"
    "Content-Type: application/x-npz\r\nContent-Length: 1000\r\n\r\nPK",
}
"""What clients say that then neither take nor send."""


@pytest.fixture(scope="module")
def left(served: Served) -> Iterator[dict[str, socket.socket]]:
    """A connection for each of these, all of one moment: their times run side by side."""
    served.register("large", mlp(4, 250_000, 3))
    host = f"Host: {urlsplit(served.url).netloc}\r\n"
    token = f"Authorization: Bearer {served.token}\r\n"
    with ExitStack() as stack:
        connections = {
            name: stack.enter_context(stall(served, asked.format(host=host, token=token).encode()))
            for name, asked in STALLED.items()
        }
        for name, said in IDLE.items():
            connections[name] = stack.enter_context(connect(served, said))
        yield connections


def stall(served: Served, said: bytes) -> socket.socket:
    """A connection that the daemon holds and whose client has room for few bytes of the answer."""
    connection = slow_reader(served.url, said)
    wait_until(lambda: holds(served, connection), "the connection")
    return connection


def holds(served: Served, connection: socket.socket) -> bool:
    """Whether the daemon still has its end; the client's shows nothing while answers lie in it."""
    port = connection.getsockname()[1]
    held = psutil.Process(served.process.pid).net_connections("tcp4")
    return any(each.raddr and each.raddr.port == port for each in held)


@pytest.mark.parametrize("said", IDLE)
def test_a_connection_without_a_whole_request_is_closed_in_time(
    left: dict[str, socket.socket], said: str
) -> None:
    wait_until(lambda: is_closed(left[said]), "the connection to be closed", deadline_s=30)


def test_a_connection_outlives_what_clients_keep_it_for() -> None:
    """Otherwise a request may meet the end of its connection."""
    kept_s = httpx.Limits().keepalive_expiry
    assert kept_s is not None
    assert kept_s < _configured(FastAPI(), Settings()).timeout_keep_alive < MAX_WAIT_S


def test_a_request_in_drops_does_not_hold_a_connection(served: Served) -> None:
    """One that was answered and then begins anew has no more time than a new one."""
    host = urlsplit(served.url).netloc
    whole = f"GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()
    with connect(served, whole) as connection:
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")

        def ended_after_another_byte() -> bool:
            try:
                connection.setblocking(True)
                connection.send(b"G")
            except ConnectionError:
                return True
            return is_closed(connection)

        wait_until(ended_after_another_byte, "the connection to be closed", deadline_s=30)


@pytest.mark.parametrize("asked", STALLED)
def test_a_client_that_neither_takes_nor_sends_is_cut(
    served: Served, left: dict[str, socket.socket], asked: str
) -> None:
    wait_until(lambda: not holds(served, left[asked]), "its end", deadline_s=60)
    assert "Traceback" not in served.said()


def test_the_head_and_the_body_of_an_answer_arrive_together(served: Served) -> None:
    asked = f"GET /v1/models HTTP/1.1\r\nHost: {urlsplit(served.url).netloc}\r\n"
    asked += f"Authorization: Bearer {served.token}\r\n\r\n"
    with connect(served) as connection:
        for _ in range(20):
            connection.sendall(asked.encode())
            answer = connection.recv(2**20)
            assert answer.endswith(b"}"), answer


@pytest.mark.parametrize("offer", ["h2c", "websocket"])
def test_an_offer_of_another_protocol_is_not_taken_and_not_logged(
    served: Served, offer: str
) -> None:
    asked = {"Connection": "Upgrade", "Upgrade": offer}
    assert served.http.get("/v1/models", headers=asked).status_code == 200
    assert "pgrade" not in served.said()
