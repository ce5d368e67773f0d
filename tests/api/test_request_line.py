"""What stands in the first lines of a request, byte by byte over a real socket."""

from __future__ import annotations

import http.client
import re
import socket
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from support import DEADLINE_S, Served, mlp


@pytest.fixture(scope="module")
def model(served: Served) -> str:
    served.register("request-line", mlp(4, 8, 3))
    return "request-line"


def say(served: Served, *lines: str, body: bytes = b"") -> http.client.HTTPResponse:
    """The answer to these lines, read until the daemon closes the connection."""
    address = urlsplit(served.url)
    with socket.create_connection((address.hostname, address.port), DEADLINE_S) as connection:
        token = f"Authorization: Bearer {served.token}"
        text = "\r\n".join([*lines, token, "", ""])
        connection.sendall(text.encode() + body)
        answer = http.client.HTTPResponse(connection, method=lines[0].split()[0])
        answer.begin()
        answer.read()
        return answer


def host(served: Served) -> str:
    return "Host: " + urlsplit(served.url).netloc


@pytest.mark.parametrize(
    "path",
    ["/healthz", "/v1/models", "/v1/models/request-line", "/openapi.json", "/docs", "/dashboard"],
)
def test_head_is_answered_as_get_without_the_body(served: Served, model: str, path: str) -> None:
    got, head = served.http.get(path), served.http.head(path)
    assert (head.status_code, head.content) == (200, b"")
    for name in ("content-type", "content-length", "etag"):
        assert head.headers.get(name) == got.headers.get(name)


CHANGES_MEANWHILE = frozenset(
    {
        *("/metrics", "/readyz", "/v1/device", "/v1/device/history", "/v1/backup", "/v1/events"),
        *("/v1/events/history", "/v1/system"),
    }
)
"""Whose answers differ from one moment to the next, in length or for good."""


def test_head_of_every_route_has_the_headers_of_its_get(
    served: Served, model: str, description: dict[str, Any]
) -> None:
    paths = description["paths"]
    known = {"name": model, "alias": "latest", "number": 1, "other": 1}
    ids = {name: 999 for path in paths for name in re.findall(r"{(\w+_id)}", path)}
    for path in [path for path, methods in paths.items() if "get" in methods]:
        if path not in CHANGES_MEANWHILE:
            target = path.format(**known, **ids)
            got, head = served.http.get(target), served.http.head(target)
            assert (head.status_code, head.content) == (got.status_code, b""), target
            for name in ("content-type", "content-length", "etag"):
                assert head.headers.get(name) == got.headers.get(name), target


def test_head_of_a_stream_ends(served: Served) -> None:
    answer = served.http.head("/v1/events")
    assert answer.headers["content-type"].startswith("text/event-stream")


def test_head_takes_no_range(served: Served, model: str) -> None:
    path = f"/v1/models/{model}/versions/1/model.onnx"
    answer = served.http.head(path, headers={"Range": "bytes=0-9"})
    assert answer.status_code == 200
    assert int(answer.headers["content-length"]) > 10


def test_a_target_in_absolute_form_is_found(served: Served) -> None:
    target = f"{served.url}/v1/models?limit=1"
    answer = say(served, f"GET {target} HTTP/1.1", host(served), "Connection: close")
    assert answer.status == 200


def test_the_authority_of_an_absolute_target_counts_and_not_the_host(served: Served) -> None:
    answer = say(
        served, "GET http://evil.example/healthz HTTP/1.1", host(served), "Connection: close"
    )
    assert answer.status == 421


def test_a_body_of_two_lengths_is_refused_and_the_connection_ends(
    served: Served, model: str
) -> None:
    answer = say(
        served,
        f"POST /v1/models/{model}/jobs HTTP/1.1",
        host(served),
        "Content-Type: application/json",
        "Content-Length: 2",
        "Transfer-Encoding: chunked",
        body=b"2\r\n{}\r\n0\r\n\r\n",
    )
    assert answer.status == 400
    assert answer.getheader("Connection") == "close"
    assert served.http.get("/v1/jobs", params={"model": model}).json()["items"] == []


@pytest.mark.parametrize(
    ("asked", "status"), [("{many}-", 416), ("-{many}", 206), ("0-{many}", 206), ("5-{many}", 206)]
)
def test_a_range_of_thousands_of_digits_is_beyond_the_end(
    served: Served, model: str, asked: str, status: int
) -> None:
    header = {"Range": "bytes=" + asked.format(many="9" * 5000)}
    answer = served.http.get(f"/v1/models/{model}/versions/1/model.onnx", headers=header)
    assert answer.status_code == status


def test_a_checkpoint_beyond_every_number_is_refused(served: Served, model: str) -> None:
    answer = served.http.post(f"/v1/models/{model}/jobs", json={"from": 2**64})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/from"


def test_the_own_address_is_a_host_whatever_it_is(serve: Callable[..., Served]) -> None:
    served = serve(host="127.0.0.2", allowed_hosts='["Device.LOCAL"]')
    port = served.url.rpartition(":")[2]
    assert served.http.get("/v1/models").status_code == 200
    for name, status in (("device.local", 200), ("DEVICE.local", 200), ("127.0.0.3", 421)):
        answer = served.http.get("/v1/models", headers={"Host": f"{name}:{port}"})
        assert answer.status_code == status, name


@pytest.mark.parametrize("own_first", [True, False])
def test_every_origin_counts(served: Served, own_first: bool) -> None:
    origins = [("Origin", served.url), ("Origin", "http://evil.example")]
    token = ("Authorization", f"Bearer {served.token}")
    headers = [token, *(origins if own_first else origins[::-1])]
    answer = httpx.get(f"{served.url}/v1/models", headers=headers, trust_env=False)
    assert answer.json()["code"] == "foreign_origin"


@pytest.mark.parametrize("method", ["POST", "HEAD"])
@pytest.mark.parametrize("lengths", ["", "Content-Length: 4\r\n"])
def test_a_body_that_is_no_http_ends_the_connection_and_is_no_fault_of_the_daemon(
    served: Served, lengths: str, method: str
) -> None:
    said_before = served.said()
    answer = say(
        served,
        f"{method} /v1/models HTTP/1.1",
        host(served),
        f"{lengths}Transfer-Encoding: chunked",
        body=b"zz\r\n",
    )
    assert answer.status == 400
    assert served.http.get("/healthz").status_code == 200
    assert "Traceback" not in served.said().removeprefix(said_before)


@pytest.mark.parametrize("path", ["/v1/events", "/healthz"])
def test_a_body_that_is_no_http_ends_the_connection_after_the_answer_began(
    served: Served, path: str
) -> None:
    said_before = served.said()
    address = urlsplit(served.url)
    lines = [f"GET {path} HTTP/1.1", host(served), f"Authorization: Bearer {served.token}"]
    asked = "\r\n".join([*lines, "Transfer-Encoding: chunked", "", ""]).encode()
    with socket.create_connection((address.hostname, address.port), DEADLINE_S) as connection:
        connection.sendall(asked)
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        connection.sendall(b"zz\r\n")
        while connection.recv(4096):
            pass
    assert served.http.get("/healthz").status_code == 200
    assert "Traceback" not in served.said().removeprefix(said_before)
