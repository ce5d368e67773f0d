"""Bodies that are too long or cannot be read, and bodies whose sender goes away."""

from __future__ import annotations

import gzip
import re
import socket
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest
from hostile_http import slow_reader
from support import Served, mlp, wait_until

MOST_BYTES = 2**20
NEEDS_NO_TOKEN = "/v1/sign-in"
IS_JSON = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def url(served: Served) -> str:
    served.register("bodied", mlp(3, 4, 2))
    return "/v1/models/bodied"


@pytest.fixture(scope="module")
def json_routes(description: dict[str, Any]) -> list[tuple[str, str]]:
    """Method and path of every route that takes JSON and nothing else."""
    return [
        (method.upper(), path)
        for path, operations in description["paths"].items()
        for method, operation in operations.items()
        if list(operation.get("requestBody", {}).get("content", ())) == ["application/json"]
    ]


def chunks(size: int) -> Iterator[bytes]:
    """A body whose length is not announced."""
    yield b"{"
    for _ in range(size // 2**14):
        yield b" " * 2**14
    yield b"}"


def test_a_body_of_any_json_route_is_bounded(
    served: Served, json_routes: list[tuple[str, str]]
) -> None:
    assert len(json_routes) >= 10
    for method, path in json_routes:
        most = 2**14 if path == NEEDS_NO_TOKEN else MOST_BYTES
        place = re.sub(r"\{(\w+)\}", lambda found: "m" if found[1] == "name" else "1", path)
        for body in (b"{" + b" " * most + b"}", chunks(most)):
            answer = served.http.request(method, place, content=body, headers=IS_JSON)
            assert answer.status_code == 413, f"{method} {path}: {answer.text}"
            assert answer.json()["code"] == "too_large"
            assert str(most) in answer.json()["detail"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ('{"name": "café"}'.encode("latin-1"), "can't decode byte 0xe9 in position 13"),
        (b"[" * 100_000, "nested too deeply"),
        (b"{", "Expecting property name"),
        ('{"name": "a"}'.encode("utf-16"), "can't decode byte 0xff in position 0"),
        (b'{"label": 1, "a": {"b": 1}, "label": 0}', 'an object has the name "label" twice'),
    ],
)
def test_a_body_that_is_not_json_is_told_why(
    served: Served, url: str, body: bytes, why: str
) -> None:
    for method, path in (
        ("POST", f"{url}/triggers"),
        ("PATCH", f"{url}/samples/1"),
        ("POST", f"{url}/samples"),
        ("POST", f"{url}/predict"),
    ):
        told = served.http.request(method, path, content=body, headers=IS_JSON)
        assert (told.status_code, told.json()["detail"]) == (422, "the body is not JSON")
        [fault] = told.json()["errors"]
        assert why in fault["detail"]
        assert "send UTF-8 JSON" in fault["detail"]


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("samples", "application/json"),
        ("samples", "text/csv"),
        ("samples", "multipart/form-data; boundary=x"),
        ("predict", "application/x-npz"),
        ("jobs", "application/json"),
    ],
)
def test_a_compressed_body_is_refused_as_one(
    served: Served, url: str, path: str, kind: str
) -> None:
    headers = {"Content-Type": kind, "Content-Encoding": "gzip"}
    told = served.http.post(f"{url}/{path}", content=gzip.compress(b"{}"), headers=headers)
    assert told.status_code == 415
    assert told.json()["detail"] == "the body is compressed (gzip); send it uncompressed"
    plain = {**IS_JSON, "Content-Encoding": "identity"}
    instance = {"inputs": {"x": [1, 2, 3]}}
    assert served.http.post(f"{url}/predict", json=instance, headers=plain).status_code == 200


def test_a_text_that_is_said_to_be_no_utf_8_is_refused(served: Served, url: str) -> None:
    instance = '{"inputs": {"x": [1, 2, 3]}}'
    for method, path, kind in (
        ("POST", "samples", "text/csv"),
        ("POST", "samples", "application/jsonl"),
        ("POST", "predict", "application/json"),
        ("PATCH", "samples/1", "application/json"),
    ):
        headers = {"Content-Type": f'{kind}; a=b; Charset="UTF-16"'}
        body = instance.encode("utf-16-le")
        told = served.http.request(method, f"{url}/{path}", content=body, headers=headers)
        assert told.status_code == 415, told.text
        assert told.json()["detail"] == "the body is in the charset UTF-16; send UTF-8"
    said = {"Content-Type": "application/json; charset=utf-8"}
    assert served.http.post(f"{url}/predict", content=instance, headers=said).status_code == 200


@pytest.mark.parametrize("path", ["samples/1", "samples"])
def test_a_body_with_a_label_has_the_bound_of_its_model(
    served: Served, url: str, path: str
) -> None:
    most = MOST_BYTES + 32  # for the one number of the label
    for size, is_too_large in ((most, False), (most + 1, True)):
        body = b"{" + b" " * (size - 2) + b"}"
        answer = served.http.patch(f"{url}/{path}", content=body, headers=IS_JSON)
        assert (answer.status_code == 413) is is_too_large, answer.text


def test_a_mask_for_a_model_of_other_labels_is_refused_by_its_type(
    served: Served, url: str
) -> None:
    kind = {"Content-Type": "image/png"}
    told = served.http.patch(f"{url}/samples/1", content=b"\x89PNG\r\n\x1a\n", headers=kind)
    assert told.status_code == 415, told.text
    assert told.json()["detail"].endswith("set Content-Type to application/json")


def test_a_body_within_the_bound_is_read(served: Served, url: str) -> None:
    body = b'{"hyperparameters": {"epochs": 3}' + b" " * (MOST_BYTES - 34) + b"}"
    assert len(body) == MOST_BYTES

    answer = served.http.patch(url, content=body, headers=IS_JSON)

    assert answer.status_code == 200
    assert answer.json()["hyperparameters"]["epochs"] == 3


@pytest.mark.parametrize(
    ("method", "path", "kind"),
    [
        ("POST", "/v1/models", "multipart/form-data; boundary=b"),
        ("POST", "/v1/models/bodied/samples", "application/json"),
        ("POST", "/v1/models/bodied/samples", "application/x-npz"),
        ("POST", "/v1/models/bodied/samples", "text/csv"),
        ("POST", "/v1/models/bodied/samples/archive", "application/zip"),
        ("POST", "/v1/models/bodied/predict?keep=true", "application/json"),
        ("POST", "/v1/models/bodied/jobs", "application/json"),
    ],
)
def test_a_sender_who_goes_away_stores_nothing_and_is_no_error(
    method: str, path: str, kind: str, served: Served, url: str
) -> None:
    seen = served.log.stat().st_size
    place = httpx.URL(served.url)
    head = (
        f"{method} {path} HTTP/1.1\r\nHost: {place.netloc.decode()}\r\n"
        f"Authorization: Bearer {served.token}\r\nContent-Type: {kind}\r\n"
        "Content-Length: 1000000\r\n\r\n"
    )
    begun = b'--b\r\nContent-Disposition: form-data; name="model"; filename="m"\r\n\r\n'
    with socket.create_connection((place.host, place.port)) as connection:
        connection.sendall(head.encode() + begun + b"x" * 200_000)

    def told() -> str:
        text = served.log.read_bytes()[seen:].decode()
        return text if "request." in text else ""

    text = wait_until(told, "the daemon to notice")
    assert "request.abandoned" in text
    assert "request.failed" not in text
    assert "Traceback" not in text
    assert list((served.data_dir / "tmp").iterdir()) == []
    assert served.http.get(f"{url}/samples").json()["items"] == []
    assert served.http.get("/v1/jobs?model=bodied").json()["items"] == []


def test_an_answer_to_half_a_body_reaches_a_sender_that_keeps_no_connection(served: Served) -> None:
    """As nginx does, and Python's urllib."""
    place = httpx.URL(served.url)
    head = (
        f"POST /v1/models/any/samples HTTP/1.1\r\nHost: {place.netloc.decode()}\r\n"
        "Connection: close\r\nContent-Length: 10000000\r\n\r\n"
    )
    with socket.create_connection((place.host, place.port)) as connection:
        connection.sendall(head.encode())
        connection.recv(1, socket.MSG_PEEK)
        connection.sendall(b"x" * 10_000_000)
        assert connection.recv(2**14).startswith(b"HTTP/1.1 401")


def test_what_a_stop_cuts_off_is_told_to_come_again(
    serve_inside: Callable[..., Any], caplog: pytest.LogCaptureFixture
) -> None:
    inside = serve_inside()
    inside.server.config.timeout_graceful_shutdown = 0.1
    host = f"Host: {httpx.URL(inside.url).netloc.decode()}\r\n"
    host += f"Authorization: Bearer {inside.token}\r\n"
    upload = f"POST /v1/models HTTP/1.1\r\n{host}"
    kind = "Content-Type: multipart/form-data; boundary=b\r\nContent-Length: 9\r\n\r\n-"
    spec = {"spec": '{"name": "m", "loss": "cross_entropy"}'}
    bearer = {"Authorization": f"Bearer {inside.token}"}
    file = {"model": mlp(1000, 1000, 3)}
    assert httpx.post(f"{inside.url}/v1/models", headers=bearer, data=spec, files=file).is_success
    fetch = f"GET /v1/models/m/latest/model.onnx HTTP/1.1\r\n{host}\r\n"
    with (
        slow_reader(inside.url, fetch.encode()),
        slow_reader(inside.url, f"{upload}{kind}".encode()) as cut_off,
    ):
        wait_until(lambda: len(inside.server.server_state.tasks) == 2, "both requests")
        inside.server.should_exit = True
        answer = cut_off.recv(4096)
        wait_until(lambda: not inside.server.server_state.connections, "both to be cut")
    assert answer.startswith(b"HTTP/1.1 503 ")
    assert b'"code":"not_ready"' in answer
    assert [each.message for each in caplog.records if each.exc_info] == []
    assert "without completing" not in caplog.text
