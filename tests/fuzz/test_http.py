"""Whatever is said to a daemon over HTTP is answered without a fault of its own."""

from __future__ import annotations

import http.client
import socket
from collections.abc import Iterator
from random import Random
from urllib.parse import urlsplit

import hostile_http as hostile
import pytest
from hostile import RANDOM
from hypothesis import given, settings
from support import DEADLINE_S, Served, mlp

FUZZ = settings.get_profile("fuzz")
PATIENCE_S = 0.05
"""How long a request whose end is in doubt waits for its answer before the client hangs up."""
NOT_ASKED = frozenset({"/v1/backup", "/v1/events", "/v1/models/{name}/samples/archive"})
"""Long answers, which the requests with odd headers ask for."""


class Door:
    """A connection to a daemon, opened anew where the daemon has closed it."""

    def __init__(self, served: Served) -> None:
        address = urlsplit(served.url)
        self.host, self.token = address.netloc, served.token
        self._address = (address.hostname, address.port)
        self._connection: http.client.HTTPConnection | None = None

    def ask(self, method: str, target: str, *, media_type: str = "", body: bytes = b"") -> int:
        """The status of the answer, which is read whole."""
        connection = self._connection or http.client.HTTPConnection(
            *self._address, timeout=DEADLINE_S
        )
        self._connection = None
        headers = {"Authorization": f"Bearer {self.token}", "Content-Length": str(len(body))}
        connection.putrequest(method, target, skip_accept_encoding=True)
        for name, value in (headers | {"Content-Type": media_type}).items():
            connection.putheader(name, value.encode("latin-1"))
        try:
            connection.endheaders(body)
            answer = connection.getresponse()
            answer.read()
        except ConnectionError:
            connection.close()
            return self.ask(method, target, media_type=media_type, body=body)
        self._connection = connection
        return answer.status

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()

    def say(self, message: bytes) -> bytes:
        """All that comes back until the daemon closes the connection."""
        with socket.create_connection(self._address, DEADLINE_S) as connection:
            answer = bytearray()
            connection.settimeout(PATIENCE_S)
            try:
                connection.sendall(message)
                while part := _received(connection):
                    answer += part
            except ConnectionError:
                pass
            return bytes(answer)


def _received(connection: socket.socket) -> bytes:
    try:
        return connection.recv(2**16)
    except TimeoutError:
        connection.settimeout(DEADLINE_S)
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(2**16)


@pytest.fixture(scope="module")
def door(served: Served) -> Iterator[Door]:
    """A daemon with a model that gets no sample, so that no job begins, and one that takes them."""
    served.clear()
    for name in ("still", "taking"):
        served.register(name, mlp(3, 4, 2))
    asking = Door(served)
    yield asking
    asking.close()
    assert served.http.get("/healthz").status_code == 200
    assert "Traceback" not in served.said(), served.said().partition("Traceback")[2][:5000]
    served.clear()


UPLOADS = [
    ("POST", "/v1/models/taking/samples"),
    ("POST", "/v1/models/taking/samples/archive"),
    ("POST", "/v1/models/taking/predict"),
    ("POST", "/v2/models/taking/infer"),
    ("POST", "/v1/models"),
]


@pytest.fixture(scope="module")
def reads() -> list[hostile.Operation]:
    """What only asks, and answers soon."""
    asked = [operation for operation in hostile.operations() if operation[0] == "GET"]
    return [each for each in asked if each[1] not in NOT_ASKED]


@pytest.fixture(scope="module")
def writes() -> list[hostile.Operation]:
    """What takes JSON."""
    return [
        operation
        for operation in hostile.operations()
        if "application/json" in operation[2].get("requestBody", {}).get("content", ())
    ]


@FUZZ
@given(r=RANDOM)
def test_lines_and_headers(door: Door, r: Random) -> None:
    answer = door.say(hostile.head(r, door.host, door.token))
    assert not answer.startswith(b"HTTP/1.1 5"), answer[:500]


@FUZZ
@given(r=RANDOM)
def test_paths_and_queries(door: Door, reads: list[hostile.Operation], r: Random) -> None:
    method, path, operation = r.choice(reads)
    target = hostile.target_of(r, path, operation, {"name": "still", "alias": "latest"})
    assert door.ask(method, target) < 500, target


@FUZZ
@given(r=RANDOM)
def test_json_bodies(door: Door, writes: list[hostile.Operation], r: Random) -> None:
    method, path, operation = r.choice(writes)
    name = "taking" if "/samples" in path else "still"
    target = hostile.target_of(r, path, operation, {"name": name, "alias": "other"})
    body = hostile.body_of(r, operation)
    status = door.ask(method, target, media_type="application/json", body=body)
    assert status < 500, (method, target, body)


@FUZZ
@given(r=RANDOM)
def test_uploads(door: Door, r: Random) -> None:
    method, target = r.choice(UPLOADS)
    media_type, body = hostile.upload(r)
    status = door.ask(method, target, media_type=media_type, body=body)
    assert status < 500, (target, media_type, body)
