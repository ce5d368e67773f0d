"""A daemon to measure: the tests' harness, in a temporary folder."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
from numpy.typing import NDArray

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

from cli.demo import digits
from cli.demo.digits import predicted
from storage.store import Store

Samples = tuple[NDArray[Any], NDArray[Any]]
"""Inputs and labels."""
__all__ = [
    "CHROMIUM",
    "Graph",
    "Laptop",
    "Samples",
    "Served",
    "add_base_set",
    "add_decoder",
    "add_mlp",
    "byte_tokenizer",
    "decoder",
    "device_digits",
    "digits_cnn",
    "in_float32",
    "in_int4",
    "in_int8",
    "job_s",
    "latest",
    "launched",
    "mlp",
    "npz",
    "predicted",
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


def job_s(job: dict[str, Any], *, since: str = "created_at") -> float:
    """Seconds that a job took from its request, or another of its moments, to its version."""
    began, ended = (datetime.fromisoformat(job[at][:-1]) for at in (since, "finished_at"))
    return (ended - began).total_seconds()


def add_mlp(daemon: Served, name: str, *sizes: int, samples: int) -> None:
    """Register an MLP, and upload random samples for it."""
    generator = np.random.default_rng(0)
    x = generator.random((samples, sizes[0]), dtype=np.float32)
    daemon.register(name, mlp(*sizes))
    daemon.upload(name, x=x, label=generator.integers(0, sizes[-1], samples))


def add_base_set(daemon: Served, name: str, **arrays: NDArray[Any]) -> None:
    """Upload samples of before, which a model is not to forget."""
    headers = {"Content-Type": "application/x-npz"}
    daemon.http.post(f"/v1/models/{name}/base-set", content=npz(**arrays), headers=headers)


def latest(daemon: Served, name: str) -> bytes:
    """The file that apps fetch."""
    content: bytes = daemon.http.get(f"/v1/models/{name}/latest/model.onnx").content
    return content


def digits_cnn() -> bytes:
    """The demo's CNN: input `image` (batch, 1, 8, 8)."""
    return (digits.folder() / "base.onnx").read_bytes()


def device_digits() -> Samples:
    """What the demo's camera saw: images (1000, 1, 8, 8)."""
    with np.load(digits.folder() / "device.npz") as arrays:
        return arrays["image"], arrays["label"]
