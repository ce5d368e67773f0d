"""A daemon to measure: the tests' harness, in a temporary folder."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "helpers"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "helpers" / "dashboard"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "helpers" / "graphs"))
sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "helpers" / "models"))

from browser import CHROMIUM, launched
from completions import add_decoder
from daemon_process import start_program
from decoders import byte_tokenizer, decoder
from laptop import Laptop
from quantized import in_float32, in_int4, in_int8
from support import ENDED, Served, mlp, npz, wait_until
from texts import Graph, written

from storage.store import Store

__all__ = [
    "CHROMIUM",
    "Graph",
    "Laptop",
    "Served",
    "add_decoder",
    "byte_tokenizer",
    "decoder",
    "digits_cnn",
    "in_float32",
    "in_int4",
    "in_int8",
    "launched",
    "mlp",
    "npz",
    "served",
    "train",
    "wait_until",
    "written",
]


@contextmanager
def served(**settings: object) -> Iterator[Served]:
    """A running daemon with these settings; stopped and removed at the end.

    Its client fails the benchmark for every refusal, the time of which would say nothing.
    """
    with tempfile.TemporaryDirectory(prefix="honed-bench-") as folder:
        empty = Path(folder) / "empty"
        Store.open(empty).close()
        running = Served(
            Path(folder) / "data", database=empty / "hone.db", start=start_program, **settings
        )
        running.http.event_hooks = {"response": [_accepted]}
        try:
            yield running
        finally:
            running.stop()


def _accepted(answer: httpx.Response) -> None:
    if answer.is_error:
        content = answer.read().decode()
        raise AssertionError(f"{answer.request.method} {answer.request.url}: {content}")


def train(daemon: Served, model: str, **asked: object) -> dict[str, Any]:
    """Train until an event reports the end: polling would distort what is measured."""
    ends = [("type", f"job.{state}") for state in ENDED]
    with daemon.http.stream("GET", "/v1/events", params=ends, timeout=None) as events:
        lines = events.iter_lines()
        next(lines)
        job = daemon.ask_for_job(model, **asked)["id"]
        while daemon.job(job)["state"] not in ENDED:
            next(line for line in lines if line.startswith("event: "))
    done = daemon.job(job)
    assert done["state"] == "succeeded", done
    return done


def digits_cnn() -> bytes:
    """The demo's CNN: input `image` (batch, 1, 8, 8)."""
    return (Path(__file__).parent.parent / "examples/digits/base.onnx").read_bytes()
