"""What one app's bodies may take of memory and disk: real daemons, bodies that never end."""

from __future__ import annotations

import io
import secrets
import select
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import numpy as np
import psutil
import pytest
from small_disks import in_memory
from support import DEADLINE_S, Served, blobs, client, mlp, wait_until

from storage.records.access import USUAL_CONNECTIONS

MEBIBYTE = 2**20
CHUNK = b"100000\r\n" + b" " * MEBIBYTE + b"\r\n"
SAMPLES = "/v1/models/m/samples"
JSON = "application/json"


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A filesystem of 64 MiB."""
    with in_memory(tmp_path / "disk", size_mib=64) as folder:
        yield folder


def token_of(served: Served, *scopes: str) -> str:
    body = {"name": secrets.token_hex(8), "scopes": scopes}
    secret: str = served.http.post("/v1/tokens", json=body).raise_for_status().json()["secret"]
    return secret


def ask(served: Served, asked: str, secret: str, **headers: str) -> socket.socket:
    """A connection with the head of a request. asked: method and path."""
    place = httpx.URL(served.url)
    connection = socket.create_connection((place.host, place.port or 80), timeout=DEADLINE_S)
    told = {"Host": place.netloc.decode(), "Authorization": f"Bearer {secret}", **headers}
    lines = [f"{asked} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items()), "", ""]
    connection.sendall("\r\n".join(lines).encode())
    return connection


def begin(served: Served, path: str, kind: str, secret: str) -> socket.socket:
    """A connection whose body may follow in chunks."""
    headers = {"Content-Type": kind, "Transfer-Encoding": "chunked"}
    return ask(served, f"POST {path}", secret, **headers)


def send_chunks(connection: socket.socket, count: int) -> None:
    """Send so many chunks of a MiB, or fewer if there is an answer before."""
    for _ in range(count):
        left = memoryview(CHUNK)
        while left:
            readable, _, _ = select.select([connection], [connection], [], DEADLINE_S)
            if readable:
                return
            left = left[connection.send(left) :]


def has_answer(connection: socket.socket) -> bool:
    readable, _, _ = select.select([connection], [], [], 0)
    return bool(readable)


def status(connection: socket.socket) -> str:
    return connection.recv(12).decode()[-3:]


def resident_bytes(served: Served) -> int:
    size: int = psutil.Process(served.process.pid).memory_info().rss
    return size


@pytest.fixture
def peak(served: Served) -> Iterator[Callable[[], int]]:
    """How much the daemon's memory has grown at most since the test began."""
    before, most, ended = resident_bytes(served), [0], threading.Event()

    def watch() -> None:
        while not ended.wait(0.01):
            most[0] = max(most[0], resident_bytes(served) - before)

    watching = threading.Thread(target=watch)
    watching.start()
    yield lambda: most[0]
    ended.set()
    watching.join()


@pytest.fixture(scope="module")
def model(served: Served) -> str:
    served.register("m", mlp(3, 4, 2))
    return "m"


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize("path", [SAMPLES, "/v1/models/m/predict", "/v2/models/m/infer"])
def test_bodies_that_one_token_keeps_in_memory_are_bounded_together(
    served: Served, peak: Callable[[], int], path: str
) -> None:
    secret = token_of(served, "samples:write", "predict")
    with ExitStack() as opened:
        sending = [opened.enter_context(begin(served, path, JSON, secret)) for _ in range(12)]
        for connection in sending:
            send_chunks(connection, 31)
        wait_until(lambda: sum(not has_answer(each) for each in sending) <= 2, "the refusals")
        assert {status(each) for each in sending if has_answer(each)} == {"429"}
        with client(served.url, token=token_of(served, "samples:write")) as other:
            sample = {"inputs": {"x": [1, 2, 3]}, "label": 1}
            assert other.post(SAMPLES, json=sample).status_code == 201
    assert peak() < 160 * MEBIBYTE


LISTS = b'{"inputs": {"x": [' + b"[]," * 10_000_000 + b"[]]}}"
SMALL = b'{"samples": [' + b"[[], [], [], [], [], [], [], []]," * 100_000 + b"{}]}"


@pytest.mark.usefixtures("model")
def test_json_that_takes_many_times_its_size_in_memory_is_refused(
    served: Served, peak: Callable[[], int]
) -> None:
    for path in (SAMPLES, "/v1/models/m/predict"):
        answer = served.http.post(path, content=LISTS, headers={"Content-Type": JSON})
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        assert "of memory" in answer.json()["detail"]
    assert peak() < 160 * MEBIBYTE


@pytest.mark.usefixtures("model")
def test_one_large_text_is_read_at_a_time(served: Served, peak: Callable[[], int]) -> None:
    codes: list[int] = []

    def send() -> None:
        with client(served.url, token=served.token) as sending:
            answer = sending.post(SAMPLES, content=SMALL, headers={"Content-Type": JSON})
            codes.append(answer.status_code)

    sending = [threading.Thread(target=send) for _ in range(6)]
    for thread in sending:
        thread.start()
    for thread in sending:
        thread.join()
    assert codes == [422] * 6
    assert peak() < 150 * MEBIBYTE


def test_json_in_a_file_of_a_form_is_bounded(served: Served, peak: Callable[[], int]) -> None:
    files = {"spec": ("s.json", b" " * 64 * MEBIBYTE), "model": ("m.onnx", b"x")}
    answer = served.http.post("/v1/models", files=files)
    assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
    assert peak() < 50 * MEBIBYTE


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        (SAMPLES, "application/x-npz"),
        (SAMPLES, "text/csv"),
        (f"{SAMPLES}/archive", "application/zip"),
        ("/v1/models", "multipart/form-data; boundary=b"),
    ],
)
def test_bodies_without_end_leave_the_disk_its_reserve(
    disk: Path, serve: Callable[..., Served], path: str, kind: str
) -> None:
    reserve = 16 * MEBIBYTE
    served = serve(disk / "data", disk_reserve_bytes=reserve)
    served.register("m", mlp(3, 4, 2))
    with ExitStack() as opened:
        sending = [opened.enter_context(begin(served, path, kind, served.token)) for _ in range(3)]
        if path == "/v1/models":
            head = b'--b\r\nContent-Disposition: form-data; name="model"; filename="m"\r\n\r\n'
            for connection in sending:
                connection.sendall(b"%x\r\n" % len(head) + head + b"\r\n")
        least = shutil.disk_usage(disk).free
        for connection in sending:
            for _ in range(200):
                send_chunks(connection, 1)
                least = min(least, shutil.disk_usage(disk).free)
        assert {status(connection) for connection in sending} == {"507"}
        assert least > reserve - 8 * MEBIBYTE
    tmp = served.data_dir / "tmp"
    wait_until(lambda: not list(tmp.iterdir()), "the parts of bodies to be deleted")
    sample = {"inputs": {"x": [1, 2, 3]}, "label": 1}
    assert served.http.post(SAMPLES, json=sample).status_code == 201


def test_an_upload_that_unpacks_to_more_than_the_disk_has_leaves_it_its_reserve(
    disk: Path, serve: Callable[..., Served]
) -> None:
    served = serve(disk / "data", disk_reserve_bytes=16 * MEBIBYTE)
    served.register("m", mlp(4096, 2))
    packed = io.BytesIO()
    np.savez_compressed(packed, x=np.zeros((3200, 4096), np.float32), label=np.ones(3200, int))
    assert packed.tell() < MEBIBYTE

    headers = {"Content-Type": "application/x-npz"}
    answer = served.http.post(SAMPLES, content=packed.getvalue(), headers=headers)

    assert answer.status_code == 507
    assert "HONED_DISK_RESERVE_BYTES" in answer.json()["detail"]
    assert not list((served.data_dir / "tmp").iterdir())


def test_requests_that_wait_for_a_version_hold_nobody_up_and_end_with_their_clients(
    served: Served,
) -> None:
    served.register("waited", mlp(8, 16, 3), gate={"mode": "always"})
    served.upload("waited", **blobs(30, 8, 3))
    path = "/v1/models/waited/latest/model.onnx?wait=300"
    known = {"If-None-Match": served.http.head(path).headers["etag"]}
    secrets = [token_of(served, "models:read") for _ in range(7)]
    with ExitStack() as opened:
        waiting = [
            opened.enter_context(ask(served, f"GET {path}", secret, **known))
            for secret in secrets
            for _ in range(USUAL_CONNECTIONS)
        ]
        with client(served.url, token=secrets[0]) as greedy:
            answer = wait_until(
                lambda: (got := greedy.get("/v1/models")).status_code == 429 and got, "the limit"
            )
            assert answer.json()["code"] == "quota_exceeded"
            with client(served.url, token=token_of(served, "models:read")) as other:
                for _ in range(100):
                    assert other.get("/v1/models/waited/latest").status_code == 200
            assert not any(map(has_answer, waiting))
            for connection in waiting[:USUAL_CONNECTIONS]:
                connection.close()
            wait_until(lambda: greedy.get("/v1/models").status_code == 200, "them to be forgotten")
        served.train("waited", max_steps=1, ignore_policy=True)
        left = waiting[USUAL_CONNECTIONS:]
        wait_until(lambda: all(map(has_answer, left)), "the answers")
        assert {status(connection) for connection in left} == {"200"}
