"""Limits of tokens, and requests that are open when their token ends."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import datetime, timedelta, timezone
from typing import Any

import httpx
import pytest
from support import Served, client, mlp, wait_until

Make = Callable[..., tuple[httpx.Client, str]]
SAMPLE = {"inputs": {"x": [1.0, 2.0]}, "label": 1}


@pytest.fixture(scope="module")
def model(served: Served) -> str:
    served.register("limited", mlp(2, 4, 3))
    return "limited"


@pytest.fixture
def app(served: Served, request: pytest.FixtureRequest) -> Iterator[Make]:
    """A client with a token of these scopes and limits, and the token's path."""
    with ExitStack() as clients:

        def make(*scopes: str, expires_at: str | None = None, **limits: float) -> tuple[Any, str]:
            name = request.node.name[:64]
            body = {"name": name, "scopes": scopes, "limits": limits, "expires_at": expires_at}
            answer = served.http.post("/v1/tokens", json=body)
            assert answer.status_code == 201, answer.text
            opened = clients.enter_context(client(served.url, token=answer.json()["secret"]))
            return opened, answer.headers["location"]

        yield make


def refused(answer: httpx.Response) -> str:
    assert (answer.status_code, answer.json()["code"]) == (429, "quota_exceeded"), answer.text
    assert int(answer.headers["retry-after"]) >= 1
    detail: str = answer.json()["detail"]
    return detail


def start(asking: httpx.Client, path: str, kind: str, body: bytes) -> socket.socket:
    """A connection on which ten bytes of a body have been sent."""
    url = asking.base_url
    connection = socket.create_connection((url.host, url.port or 80))
    head = (
        f"POST {path} HTTP/1.1\r\nHost: {url.host}:{url.port}\r\n"
        f"Authorization: {asking.headers['authorization']}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\n\r\n"
    )
    connection.sendall(head.encode() + body[:10])
    return connection


def test_open_streams_count_as_connections(app: Make) -> None:
    asking, _ = app("models:read", connections=1)
    with asking.stream("GET", "/v1/events") as stream:
        lines = stream.iter_lines()
        assert next(lines)
        assert "requests at once is 1 (connections)" in refused(asking.get("/v1/models"))
    wait_until(lambda: asking.get("/v1/models").status_code == 200, "the stream to be counted out")


def test_uploads_at_once_are_bounded(served: Served, app: Make, model: str) -> None:
    asking, path = app("samples:write", uploads=1)
    samples, body = f"/v1/models/{model}/samples", json.dumps(SAMPLE).encode()
    with start(asking, samples, "application/json", body) as half:

        def second() -> httpx.Response:
            return asking.post(samples, json=SAMPLE)

        answer = wait_until(lambda: (a := second()).status_code == 429 and a, "the limit")
        assert "uploads at once is 1" in refused(answer)
        served.http.patch(path, json={"limits": {"uploads": 2}}).raise_for_status()
        assert second().status_code == 201
        half.sendall(body[10:])
        assert half.recv(100).startswith(b"HTTP/1.1 201")


def test_registrations_at_once_are_bounded(app: Make) -> None:
    asking, _ = app("models:admin", registrations=1)

    def registration(name: str) -> httpx.Request:
        spec = json.dumps({"name": name, "loss": "cross_entropy"})
        files = {"model": ("model.onnx", mlp(2, 4, 3))}
        return asking.build_request("POST", "/v1/models", data={"spec": spec}, files=files)

    first = registration("at-once-1")
    body = first.read()
    with start(asking, "/v1/models", first.headers["content-type"], body) as half:

        def second() -> httpx.Response:
            return asking.send(registration("at-once-2"))

        answer = wait_until(lambda: (a := second()).status_code == 429 and a, "the limit")
        assert "registrations at once is 1" in refused(answer)
        half.sendall(body[10:])
        assert half.recv(100).startswith(b"HTTP/1.1 201")
    wait_until(lambda: second().status_code in {201, 409}, "the limit to be free again")


@pytest.mark.parametrize("path", ["/v1/models/{}/predict", "/v2/models/{}/infer"])
def test_predictions_a_second_are_bounded(app: Make, model: str, path: str) -> None:
    asking, _ = app("predict", predictions_per_second=0.0001)
    tensor = {"name": "x", "shape": [1, 2], "datatype": "FP32", "data": [1, 2]}
    body = {"inputs": [tensor]} if path.startswith("/v2") else {"inputs": {"x": [1, 2]}}
    assert asking.post(path.format(model), json=body).status_code == 200
    again = asking.post(path.format(model), json=body)
    assert again.status_code == 429
    assert 9000 < int(again.headers["retry-after"]) <= 10_000
    assert asking.get(f"/v2/models/{model}").status_code == 200


def test_bytes_a_day_are_bounded_before_a_body_is_read_and_while_it_grows(
    app: Make, model: str
) -> None:
    asking, _ = app("samples:write", bytes_per_day=200)
    path = f"/v1/models/{model}/samples"
    assert asking.post(path, json=SAMPLE).status_code == 201
    assert "bytes_per_day" in refused(asking.post(path, content=b" " * 200))

    def growing() -> Iterator[bytes]:
        for _ in range(5):
            yield b" " * 100

    headers = {"Content-Type": "application/json"}
    assert "bytes_per_day" in refused(asking.post(path, content=growing(), headers=headers))


def test_what_was_sent_and_when_survives_a_restart(serve: Callable[..., Served]) -> None:
    first = serve()
    body = {"name": "app", "scopes": ["tokens:admin"], "limits": {"bytes_per_day": 100}}
    made = first.http.post("/v1/tokens", json=body).json()
    with client(first.url, token=made["secret"]) as asking:
        assert asking.post("/v1/tokens", content=b" " * 80).status_code == 415
    used = first.http.get(f"/v1/tokens/{made['id']}").json()["last_used_at"]
    assert used is not None
    first.stop()
    second = serve()
    assert second.http.get(f"/v1/tokens/{made['id']}").json()["last_used_at"] == used
    with client(second.url, token=made["secret"]) as asking:
        refused(asking.post("/v1/tokens", content=b" " * 80))


@pytest.mark.parametrize("end", ["DELETE", "POST"])
def test_an_open_event_stream_ends_with_its_token(served: Served, app: Make, end: str) -> None:
    asking, path = app("models:read")
    with asking.stream("GET", "/v1/events") as stream:
        lines = stream.iter_lines()
        assert next(lines)
        began = datetime.now(timezone.utc)
        served.http.request(end, path if end == "DELETE" else f"{path}/rotate").raise_for_status()
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            list(lines)
    assert datetime.now(timezone.utc) - began < timedelta(seconds=30)


def test_an_open_event_stream_ends_when_its_token_expires(app: Make) -> None:
    end = datetime.now(timezone.utc) + timedelta(seconds=6)
    asking, _ = app("models:read", expires_at=end.isoformat())
    with asking.stream("GET", "/v1/events") as stream:
        assert stream.status_code == 200
        with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
            list(stream.iter_lines())
    assert asking.get("/v1/models").status_code == 401


def test_a_long_poll_ends_with_its_token(served: Served, app: Make, model: str) -> None:
    asking, path = app("models:read")
    latest = f"/v1/models/{model}/latest"
    tag = served.http.get(latest).headers["etag"]

    def wait() -> None:
        with pytest.raises(httpx.TransportError):
            asking.get(latest, params={"wait": 120}, headers={"If-None-Match": tag})

    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(wait)
        wait_until(lambda: served.http.get(path).json()["last_used_at"], "the poll to have begun")
        served.http.delete(path).raise_for_status()
        waiting.result(30)


def test_a_half_sent_upload_ends_with_its_token(served: Served, app: Make, model: str) -> None:
    asking, path = app("samples:write")
    count = served.http.get(f"/v1/models/{model}/samples/stats").json()["size_bytes"]
    body = json.dumps(SAMPLE).encode()
    with start(asking, f"/v1/models/{model}/samples", "application/json", body) as half:
        wait_until(lambda: served.http.get(path).json()["last_used_at"], "the upload to have begun")
        served.http.delete(path).raise_for_status()
        half.settimeout(30)
        with suppress(ConnectionResetError):
            assert half.recv(100) == b""
    assert served.http.get(f"/v1/models/{model}/samples/stats").json()["size_bytes"] == count


def test_a_token_that_revokes_itself_gets_its_answer(served: Served, app: Make) -> None:
    asking, path = app("tokens:admin")
    assert asking.delete(path).status_code == 204
    assert asking.get("/v1/tokens").status_code == 401
