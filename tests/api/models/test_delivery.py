"""`?wait=`: many apps wait for the next model, at next to no cost."""

from __future__ import annotations

import json
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import httpx
import psutil
import pytest
from support import DEADLINE_S, Served, blobs, mlp, wait_until

POLLS = 200
READERS = 4
"""Connections that the store reads with."""


class Poll:
    """One request on a socket of its own."""

    def __init__(self, url: str, token: str, path: str, tag: str) -> None:
        host, _, port = url.removeprefix("http://").partition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=DEADLINE_S)
        self.socket.sendall(
            f"GET {path} HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {token}\r\n"
            f"If-None-Match: {tag}\r\n\r\n".encode()
        )

    def status(self) -> int:
        """Of the answer, once it is there."""
        line = self.socket.makefile("rb").readline()
        return int(line.split()[1])


@pytest.fixture
def polls() -> Iterator[Callable[..., list[Poll]]]:
    with ExitStack() as stack:

        def start(served: Any, name: str, *, count: int, wait_s: float) -> list[Poll]:
            path = f"/v1/models/{name}/latest/model.onnx"
            tag = httpx.head(
                served.url + path, headers={"Authorization": f"Bearer {served.token}"}
            ).headers["etag"]
            begun = [
                Poll(served.url, served.token, f"{path}?wait={wait_s}", tag) for _ in range(count)
            ]
            for poll in begun:
                stack.enter_context(poll.socket)
            return begun

        yield start


def register(served: Served, name: str) -> None:
    served.register(name, mlp(8, 6, 3))
    served.upload(name, split="train", **blobs(64, 8, 3))
    served.upload(name, split="validation", **blobs(64, 8, 3, seed=1))


def test_who_waits_gets_304_when_the_time_is_up(served: Served) -> None:
    served.register("waits", mlp(4, 3))
    url = "/v1/models/waits/latest/model.onnx"
    tag = {"If-None-Match": served.http.get(url).headers["etag"]}

    begun = time.monotonic()
    answer = served.http.get(url, params={"wait": 0.3}, headers=tag)

    assert answer.status_code == 304
    assert 0.3 <= time.monotonic() - begun < 5


def test_who_lacks_the_model_does_not_wait(served: Served) -> None:
    served.register("at-once", mlp(4, 3))

    answer = served.http.get("/v1/models/at-once/latest/model.onnx", params={"wait": 300})

    assert answer.status_code == 200


@pytest.mark.parametrize("wait", ["-1", "301", "long", "nan"])
def test_a_wait_out_of_bounds_is_refused(served: Served, wait: str) -> None:
    answer = served.http.get("/v1/models/any/latest/model.onnx", params={"wait": wait})

    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == "/query/wait"


@pytest.mark.parametrize("what", ["latest", "latest/model.onnx"])
def test_who_waits_is_told_of_a_promotion(
    served: Served, promote: Callable[[Served, str], int], what: str
) -> None:
    name = f"told-{len(what)}"
    register(served, name)
    url = f"/v1/models/{name}/{what}"
    tag = {"If-None-Match": served.http.get(url).headers["etag"]}
    answers: list[httpx.Response] = []
    client = httpx.Client(base_url=served.url, headers=served.http.headers, timeout=DEADLINE_S)

    with client:
        waiting = threading.Thread(
            target=lambda: answers.append(client.get(url, params={"wait": 60}, headers=tag))
        )
        waiting.start()
        number = promote(served, name)
        waiting.join()

    assert answers[0].status_code == 200
    assert answers[0].headers["etag"] != tag["If-None-Match"]
    assert answers[0].content == served.http.get(url).content
    assert served.http.get(f"/v1/models/{name}/latest").json()["version"] == number


def test_who_moved_latest_sees_it_at_once(
    served: Served, promote: Callable[[Served, str], int]
) -> None:
    register(served, "moved")
    promote(served, "moved")
    url = "/v1/models/moved"

    for number in (1, 2) * 10:
        moved = served.http.put(f"{url}/aliases/latest", json={"version": number})
        assert moved.status_code == 200
        assert served.http.get(f"{url}/latest").json()["version"] == number


def test_a_304_needs_neither_thread_nor_database(serve_inside: Callable[..., Any]) -> None:
    inside = serve_inside()
    token = {"Authorization": f"Bearer {inside.token}"}
    register_inside(inside, "hot")
    url = f"{inside.url}/v1/models/hot/latest/model.onnx"
    tag = {"If-None-Match": httpx.head(url, headers=token).headers["etag"]}
    release = threading.Event()
    with ExitStack() as stack:
        stack.callback(release.set)
        for _ in range(64):
            inside.call(inside.loop.run_in_executor, None, release.wait)
        for _ in range(READERS):
            stack.enter_context(inside.daemon.store.models._readers.snapshot())

        answer = httpx.get(url, headers={**token, **tag}, timeout=DEADLINE_S)
        waited = httpx.get(url, params={"wait": 0.2}, headers={**token, **tag}, timeout=DEADLINE_S)

    assert (answer.status_code, waited.status_code) == (304, 304)


def test_two_hundred_waiting_polls_cost_no_thread_and_little_memory_and_are_all_told(
    serve: Callable[..., Served],
    promote: Callable[[Served, str], int],
    polls: Callable[..., list[Poll]],
) -> None:
    served = serve()
    register(served, "many")
    polls(served, "many", count=20, wait_s=0.2)[-1].status()
    daemon = psutil.Process(served.process.pid)
    threads, memory = daemon.num_threads(), daemon.memory_info().rss
    waiting = polls(served, "many", count=POLLS, wait_s=300)
    wait_until(
        lambda: len(daemon.net_connections()) > POLLS and no_answer_comes(waiting),
        "all polls to wait",
    )
    assert daemon.num_threads() <= threads
    assert daemon.memory_info().rss - memory <= 10 * 2**20
    assert no_answer_comes(waiting)

    promote(served, "many")

    assert [poll.status() for poll in waiting] == [200] * POLLS


def register_inside(inside: Any, name: str) -> None:
    httpx.post(
        f"{inside.url}/v1/models",
        data={"spec": json.dumps({"name": name, "loss": "cross_entropy"})},
        files={"model": ("model.onnx", mlp(4, 3))},
        headers={"Authorization": f"Bearer {inside.token}"},
        timeout=DEADLINE_S,
    ).raise_for_status()


def no_answer_comes(waiting: list[Poll]) -> bool:
    with selectors.DefaultSelector() as selector:
        for poll in waiting:
            selector.register(poll.socket, selectors.EVENT_READ)
        return not selector.select(timeout=0)


def test_a_daemon_with_two_hundred_waiting_polls_stops_at_once(
    serve: Callable[..., Served], polls: Callable[..., list[Poll]]
) -> None:
    served = serve()
    served.register("stopped", mlp(4, 3))
    waiting = polls(served, "stopped", count=POLLS, wait_s=300)
    daemon = psutil.Process(served.process.pid)
    wait_until(lambda: len(daemon.net_connections()) > POLLS, "all polls to be accepted")
    # Whatever was sent before is read within one turn of the daemon's loop; an answer takes two.
    for _ in range(2):
        served.http.get("/healthz").raise_for_status()

    begun = time.monotonic()
    assert served.stop() == 0

    assert time.monotonic() - begun < 3
    assert {poll.status() for poll in waiting} == {304}


def test_a_poll_ends_when_its_client_leaves(
    serve_inside: Callable[..., Any], polls: Callable[..., list[Poll]]
) -> None:
    inside = serve_inside()
    register_inside(inside, "left")
    running = inside.server.server_state.tasks
    waiting = polls(inside, "left", count=20, wait_s=300)
    wait_until(lambda: len(running) == 20, "all polls to wait")

    for poll in waiting:
        poll.socket.close()

    wait_until(lambda: not running, "the polls to end")
