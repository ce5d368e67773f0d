"""Prediction over HTTP compared with a bare session, at rest and while a job trains."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from contextlib import closing
from statistics import median, quantiles

import numpy as np
import onnxruntime

from bench.daemon import Served, mlp, served, wait_until
from bench.table import Row

SIZES = (784, 512, 512, 10)
ROUNDS = 2000
WARM_UP = 200
SAMPLES = 20_000
SMALLEST = {"ROUNDS": 10, "WARM_UP": 1, "SAMPLES": 500}


def run() -> list[Row]:
    """An MLP, one instance per request, one request at a time."""
    model = mlp(*SIZES)
    generator = np.random.default_rng(0)
    x = generator.random((SAMPLES, SIZES[0]), dtype=np.float32)
    with served() as daemon:
        daemon.register("m", model)
        bare = milliseconds(bare_session(model, x[:1]))
        with closing(Asker(daemon, x[0])) as ask:
            idle = milliseconds(ask)
        daemon.upload("m", x=x, label=generator.integers(0, 10, len(x)))
        job = daemon.ask_for_job("m", max_seconds=600, epochs=1_000_000, ignore_policy=True)
        daemon.wait_for_job(job["id"], "running")
        wait_until(lambda: daemon.job(job["id"])["progress"].get("step"), "the first step")
        # Another connection: the daemon closes one that is idle for five seconds.
        with closing(Asker(daemon, x[0])) as ask:
            training = milliseconds(ask)
        daemon.http.post(f"/v1/jobs/{job['id']}/cancel")
    return [
        {
            "what": "batch 1, p50, ms",
            "honed": median(idle),
            "bare session": median(bare),
            "difference": median(idle) - median(bare),
            "must reach": "difference ≤ 3 ms",
        },
        {
            "what": "batch 1, p99 while a job trains, ms",
            "honed": p99(training),
            "idle": p99(idle),
            "ratio": p99(training) / p99(idle),
            "must reach": "ratio ≤ 3",
        },
    ]


class Asker:
    """Requests one prediction per call, on a connection that stays open."""

    def __init__(self, daemon: Served, x: np.ndarray) -> None:
        self._body = json.dumps({"inputs": {"x": x.tolist()}})
        self._headers = {
            "Authorization": f"Bearer {daemon.token}",
            "Content-Type": "application/json",
        }
        self._connection = http.client.HTTPConnection(daemon.url.removeprefix("http://"))

    def __call__(self) -> None:
        self._connection.request("POST", "/v1/models/m/predict", self._body, self._headers)
        answer = self._connection.getresponse()
        content = answer.read()
        assert answer.status == 200, content

    def close(self) -> None:
        self._connection.close()


def bare_session(model: bytes, x: np.ndarray) -> Callable[[], object]:
    """The same work without a daemon, with as many threads as the predictor uses by default."""
    from service.settings import default_threads

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = default_threads()
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return lambda: session.run(None, {"x": x})


def milliseconds(work: Callable[[], object]) -> list[float]:
    """The duration of each call, in milliseconds."""
    for _ in range(WARM_UP):
        work()
    spent = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        work()
        spent.append((time.perf_counter() - began) * 1000)
    return spent


def p99(spent: list[float]) -> float:
    """The 99th percentile."""
    return quantiles(spent, n=100)[-1]
