"""Uploads of 784-float samples and of short texts, durable when answered, and a flushed file."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from statistics import median

import numpy as np
import psutil

from bench.daemon import Served, add_decoder, byte_tokenizer, decoder, mlp, npz, served
from bench.requests.plain_http import Poster
from bench.table import Row

ROUNDS = 5
SIZES = (1_000, 10_000, 50_000)
TEXTS = 20_000
SMALLEST = {"ROUNDS": 1, "SIZES": (64,), "TEXTS": 64}
WORDS = ("the train", "was late", "see you", "at eight", "on my way", "good morning", "home now")
Make = Callable[[int, np.random.Generator], bytes]


def run() -> list[Row]:
    """Samples per second in uploads of several sizes, and how the daemon's peak memory grows."""
    with served() as daemon:
        daemon.register("m", mlp(784, 512, 512, 10))
        rows = [_upload(daemon, count, _arrays) for count in SIZES]
        tokenizer = byte_tokenizer(WORDS, size=300)
        model = decoder(300, width=32, layers=1, heads=2, positions=64)
        add_decoder(daemon, "texts", model, tokenizer, max_tokens=64)
        return [*rows, _upload(daemon, TEXTS, _texts, name="texts", kind="application/jsonl")]


def _arrays(count: int, generator: np.random.Generator) -> bytes:
    x = generator.random((count, 784), dtype=np.float32)  # none is there already
    return npz(x=x, label=generator.integers(0, 10, count))


def _texts(count: int, generator: np.random.Generator) -> bytes:
    drawn = generator.choice(WORDS, (count, 4))
    texts = (f"{' '.join(row)} {generator.random()}" for row in drawn)
    lines = (json.dumps({"text": text}) for text in texts)
    return "\n".join(lines).encode()


def _upload(
    daemon: Served, count: int, make: Make, *, name: str = "m", kind: str = "application/x-npz"
) -> Row:
    generator = np.random.default_rng(count)
    ours, bare = [], []
    for _ in range(ROUNDS):
        body = make(count, generator)
        began = time.perf_counter()
        accepted = _send(daemon, body, name=name, kind=kind)
        ours.append(count / (time.perf_counter() - began))
        assert accepted == count
        began = time.perf_counter()
        _write(body)
        bare.append(count / (time.perf_counter() - began))
    return {
        "samples in one upload": count,
        "as": kind,
        "honed samples/s": median(ours),
        "file + fsync samples/s": median(bare),
        "ratio": median(a / b for a, b in zip(ours, bare, strict=True)),
        "peak resident MB": _peak_mb(daemon),
        "must reach": "≥ 20,000",
    }


def _send(daemon: Served, body: bytes, *, name: str, kind: str) -> int:
    """How many samples were accepted."""
    # http.client writes the body to the socket at once; httpx takes longer than the daemon.
    with closing(Poster(daemon, f"/v1/models/{name}/samples", kind=kind, expected=201)) as send:
        return int(send(body)["accepted"])


def _write(body: bytes) -> None:
    with tempfile.NamedTemporaryFile(dir=Path.cwd()) as file:
        file.write(body)
        file.flush()
        os.fsync(file.fileno())


def _peak_mb(daemon: Served) -> float:
    status = Path(f"/proc/{daemon.process.pid}/status")
    if not status.exists():
        return float(psutil.Process(daemon.process.pid).memory_info().rss) / 2**20
    line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM"))
    return int(line.split()[1]) / 1024
