"""Whoever holds all connections keeps nobody out: real streams, as many as a daemon has."""

from __future__ import annotations

import os
import resource
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
from support import DEADLINE_S, Served, client, wait_until

from api.connections import MAX_CONNECTIONS
from storage.records.access import USUAL_CONNECTIONS

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="root comes by a Unix socket")


@pytest.fixture(autouse=True)
def many_descriptors() -> Iterator[None]:
    """This process may hold the client's end of all connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 8 * MAX_CONNECTIONS), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def make_token(served: Served, name: str, **limits: int) -> str:
    body = {"name": name, "scopes": ["models:read"], "limits": limits}
    secret: str = served.http.post("/v1/tokens", json=body).raise_for_status().json()["secret"]
    return secret


class Streams:
    """Streams of events, each on a connection of its own."""

    def __init__(self, served: Served) -> None:
        self._address = urlsplit(served.url)
        self._stack = ExitStack()

    def open(self, secret: str) -> socket.socket:
        """One more, whose head has arrived."""
        where = (self._address.hostname, self._address.port)
        opened = self._stack.enter_context(socket.create_connection(where, timeout=DEADLINE_S))
        head = f"GET /v1/events HTTP/1.1\r\nHost: {self._address.netloc}\r\n"
        opened.sendall(f"{head}Authorization: Bearer {secret}\r\n\r\n".encode())
        opened.recv(9)
        return opened

    def close(self) -> None:
        self._stack.close()


def has_ended(stream: socket.socket) -> bool:
    """Whether the daemon has closed it; what it has sent is taken."""
    stream.setblocking(False)
    try:
        while stream.recv(2**16):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True


@pytest.fixture
def streams(served: Served) -> Iterator[Streams]:
    opened = Streams(served)
    yield opened
    opened.close()


def honed(served: Served, *arguments: str, **variables: str) -> str:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HONED_")}
    done = subprocess.run(
        [sys.executable, "-m", "cli", *arguments],
        env={**kept, "HONED_CONFIG": os.devnull, **variables},
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_token_has_no_more_requests_at_once_than_the_usual(
    served: Served, streams: Streams
) -> None:
    secret = make_token(served, "usual")
    opened = [streams.open(secret) for _ in range(USUAL_CONNECTIONS)]
    with client(served.url, token=secret) as asking:
        answer = asking.get("/v1/models")
        assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded")
        assert f"is {USUAL_CONNECTIONS} (connections)" in answer.json()["detail"]
        opened[0].close()
        wait_until(lambda: asking.get("/v1/models").status_code == 200, "the stream to be gone")
    assert not any(has_ended(each) for each in opened[1:])


def test_as_many_streams_as_there_are_connections_lock_nobody_out(
    served: Served, streams: Streams
) -> None:
    secret = make_token(served, "greedy", connections=512)
    with client(served.url, token=make_token(served, "other")) as other:
        assert other.get("/v1/models").status_code == 200
    held = [streams.open(secret) for _ in range(MAX_CONNECTIONS)]
    wait_until(lambda: has_ended(held[0]) or not has_ended(held[-1]), "the streams")

    local = client(f"unix:{served.data_dir / 'api.sock'}")
    with client(served.url, token=served.token) as admin, local as root:
        for asking in (admin, root) * 10:
            assert asking.get("/v1/tokens").status_code == 200
    waiting = streams.open(served.token)
    with client(served.url) as nobody:
        assert nobody.get("/healthz").status_code == 200
    ended = [has_ended(each) for each in held]
    assert 0 < sum(ended) < 20, "one for each connection of others"
    assert all(ended[: sum(ended)]), "the oldest first"
    assert not has_ended(waiting)

    by_tcp = {"HONED_URL": served.url, "HONED_TOKEN": served.token}
    assert "greedy" in honed(served, "tokens", "list", **by_tcp)
    by_socket = {"HONED_DATA_DIR": str(served.data_dir)}
    assert "is revoked" in honed(served, "tokens", "revoke", "greedy", **by_socket)
    wait_until(lambda: all(map(has_ended, held)), "the streams of the revoked token to end")
    assert not has_ended(waiting)


def test_streams_of_many_tokens_lock_no_administrator_out(served: Served, streams: Streams) -> None:
    waiting = [streams.open(served.token) for _ in range(8)]
    count = MAX_CONNECTIONS // USUAL_CONNECTIONS + 1
    secrets = [make_token(served, f"one of {count}: {n}") for n in range(count)]
    held = [streams.open(secret) for secret in secrets for _ in range(USUAL_CONNECTIONS)]
    with client(served.url, token=served.token) as admin:
        assert admin.get("/v1/tokens").status_code == 200
    assert sum(map(has_ended, held)) >= count * USUAL_CONNECTIONS + len(waiting) - MAX_CONNECTIONS
    assert not any(map(has_ended, waiting))
