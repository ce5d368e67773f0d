"""`GET /v1/events`: follow, resume, filter; and nobody holds up the daemon."""

from __future__ import annotations

import ast
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from support import DEADLINE_S, Served, blobs, mlp, wait_until

from storage.records.jobs import JobState

ROOT = Path(__file__).parents[2]
SUFFIXES = {"safetensors", "onnx", "ort"}
"""Of files: `model.onnx` is no event."""
LOGGING = {"event", "self._log", "logger.critical", "logger.exception", "logger.warning"}


class Stream:
    """Reads an event stream in a thread."""

    def __init__(self, answer: httpx.Response) -> None:
        self.answer = answer
        self.events: list[dict[str, Any]] = []
        self.comments = 0
        self.begun = threading.Event()
        self.ended = threading.Event()
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()
        assert self.begun.wait(30), "the stream says nothing"

    def _read(self) -> None:
        fields: dict[str, str] = {}
        try:
            for line in self.answer.iter_lines():
                if line.startswith(":"):
                    self.comments += 1
                elif line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif fields:
                    self._take(fields)
                    fields = {}
        except httpx.HTTPError:
            pass
        self.ended.set()

    def _take(self, fields: dict[str, str]) -> None:
        if "data" in fields:
            event = json.loads(fields["data"])
            assert event["type"] == fields["event"]
            assert str(event["id"]) == fields.get("id", "None")
            self.events.append(event)
        self.begun.set()

    def types(self) -> list[str]:
        return [event["type"] for event in self.events]

    def wait_for(self, kind: str) -> dict[str, Any]:
        wait_until(lambda: kind in self.types(), f"the event {kind}")
        return next(event for event in self.events if event["type"] == kind)


@contextmanager
def follow(served: Any, headers: dict[str, str] | None = None, **query: Any) -> Iterator[Stream]:
    token = {"Authorization": f"Bearer {served.token}"}
    with (
        httpx.Client(base_url=served.url, timeout=DEADLINE_S, trust_env=False) as client,
        client.stream(
            "GET", "/v1/events", params=query, headers={**token, **(headers or {})}
        ) as answer,
    ):
        assert answer.status_code == 200
        assert answer.headers["content-type"].startswith("text/event-stream")
        yield Stream(answer)


def test_what_happens_is_told_as_it_happens(served: Served) -> None:
    with follow(served, model="told") as stream:
        served.register("told", mlp(4, 3))
        created = stream.wait_for("model.created")
        served.upload("told", **blobs(5, 4, 3))
        added = stream.wait_for("samples.added")

    assert created["model"] == "told"
    assert added["data"]["accepted"] == 5
    assert added["id"] > created["id"]


def test_a_reader_comes_back_where_it_left(served: Served) -> None:
    with follow(served, model="left") as stream:
        served.register("left", mlp(4, 3))
        seen = stream.wait_for("model.created")["id"]
    served.upload("left", **blobs(3, 4, 3))
    served.upload("left", **blobs(4, 4, 3, seed=1))

    for query, headers in (({"last_event_id": seen}, {}), ({}, {"Last-Event-ID": str(seen)})):
        with follow(served, headers, model="left", **query) as stream:
            served.upload("left", **blobs(1, 4, 3, seed=2))
            wait_until(lambda: len(stream.events) >= 3, "the missed events and the new one")
        assert [event["data"]["accepted"] for event in stream.events[:2]] == [3, 4]
        ids = [event["id"] for event in stream.events]
        assert ids == sorted(set(ids))


def test_models_and_types_are_chosen(served: Served) -> None:
    with (
        follow(served, model="chosen-a", type="samples.") as one,
        follow(served, type=["model.", "samples."], model=["chosen-a", "chosen-b"]) as both,
    ):
        for name in ("chosen-a", "chosen-b", "chosen-c"):
            served.register(name, mlp(4, 3))
            served.upload(name, **blobs(2, 4, 3))
        wait_until(lambda: len(both.events) == 4 and one.events, "the chosen events")

    assert [(event["model"], event["type"]) for event in one.events] == [
        ("chosen-a", "samples.added")
    ]
    assert {event["model"] for event in both.events} == {"chosen-a", "chosen-b"}


def test_progress_is_told_about_once_a_second_and_not_kept(served: Served) -> None:
    served.register("progress", mlp(8, 16, 3))
    served.upload("progress", **blobs(200, 8, 3))

    with follow(served, model="progress", type="job.") as stream:
        begun = time.monotonic()
        served.train("progress", max_seconds=2.5, epochs=1_000_000, ignore_policy=True)
        stream.wait_for("job.succeeded")
        seconds = time.monotonic() - begun

    told = [event for event in stream.events if event["type"] == "job.progress"]
    assert 1 <= len(told) <= seconds + 3  # with the first step, which is told at once
    assert all(event["id"] is None for event in told)
    assert told[-1]["data"]["step"] > 0
    with follow(served, last_event_id=0, model="progress", type="job.") as again:
        again.wait_for("job.succeeded")
        assert "job.progress" not in again.types()


def test_silence_is_filled_with_comments(serve: Callable[..., Served]) -> None:
    served = serve(event_heartbeat_s=0.05)

    with follow(served) as stream:
        wait_until(lambda: stream.comments >= 3, "three signs of life")

    assert not stream.events


def test_a_reader_learns_that_events_are_lost(serve_inside: Callable[..., Any]) -> None:
    inside = serve_inside()
    events = inside.daemon.store.events
    for number in range(5):
        events.append("samples.added", "lost", {"accepted": number})
    inside.daemon.store.history.prune(timedelta(days=1), events_kept=2)

    with follow(inside, last_event_id=1) as stream:
        assert stream.wait_for("samples.added")["data"]["accepted"] == 3
        assert stream.events[0]["type"] == "events.lost"
        assert stream.events[0]["data"] == {"after": 1, "before": 4}
    with follow(inside, last_event_id=99) as stream:
        assert stream.wait_for("events.lost")["data"] == {"after": 99, "before": 5}
        events.append("samples.added", "lost", {})
        stream.wait_for("samples.added")


def test_a_slow_reader_is_cut_off_and_the_others_hear_everything(
    serve_inside: Callable[..., Any],
) -> None:
    inside = serve_inside(event_queue_size=10)
    running = inside.server.server_state.tasks
    host, _, port = inside.url.removeprefix("http://").partition(":")
    with socket.create_connection((host, int(port))) as slow, follow(inside) as quick:
        slow.sendall(
            f"GET /v1/events HTTP/1.1\r\nHost: {host}:{port}\r\n"
            f"Authorization: Bearer {inside.token}\r\n\r\n".encode()
        )
        wait_until(lambda: len(running) == 2, "both readers")
        told = 0
        while len(running) == 2:
            inside.daemon.feed.announce("job.progress", "m", {"filler": "x" * 100_000})
            told += 1
            wait_until(lambda n=told: len(quick.events) == n, "the quick reader to hear it")
            assert told < 1000, "the slow reader is still there"

        assert len(running) == 1
        assert not quick.ended.is_set()
        slow.settimeout(30)
        last = b""
        while chunk := slow.recv(2**20):
            last = chunk
        assert not last.endswith(b"0\r\n\r\n"), "the stream was ended, not cut"


def test_streams_end_when_the_daemon_stops(serve: Callable[..., Served]) -> None:
    served = serve()

    with follow(served) as stream:
        begun = time.monotonic()
        assert served.stop() == 0
        assert time.monotonic() - begun < 3
        assert stream.ended.wait(5)


@pytest.mark.parametrize("given", ["-1", "x", str(2**63)])
def test_an_id_that_is_none_is_refused(served: Served, given: str) -> None:
    for query, headers in (({"last_event_id": given}, {}), ({}, {"Last-Event-ID": given})):
        answer = served.http.get("/v1/events", params=query, headers=headers)
        assert answer.status_code == 422


def test_an_empty_id_is_that_of_a_reader_that_has_received_none(served: Served) -> None:
    for query, headers in (({"last_event_id": ""}, {}), ({}, {"Last-Event-ID": ""})):
        with follow(served, headers, **query) as stream:
            assert stream.begun.wait(DEADLINE_S)
            assert stream.events == []


def test_every_event_is_documented() -> None:
    text = (ROOT / "docs" / "events.md").read_text("utf-8")
    documented = set(re.findall(r"^\| `([a-z_.]+)` \|", text, re.MULTILINE))

    assert documented == set(written_types({name.partition(".")[0] for name in documented}))


def written_types(families: set[str]) -> Iterator[str]:
    """Texts in storage and service that look like a type of event, and are not only logged.

    families: what types begin with.
    """
    for folder in ("storage", "service"):
        for path in (ROOT / folder).rglob("*.py"):
            tree = ast.parse(path.read_text("utf-8"))
            for text in texts(tree):
                family, _, rest = text.partition(".")
                if family in families and re.fullmatch(r"[a-z_]+", rest) and rest not in SUFFIXES:
                    yield text
    yield from (f"job.{state.value}" for state in JobState)


def texts(node: ast.AST) -> Iterator[str]:
    """String constants below a node, but for those of logging calls."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) in LOGGING:
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        yield from texts(child)
