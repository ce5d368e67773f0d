"""Prediction over HTTP compared with a bare session, at rest and while a job trains."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from statistics import median, quantiles

import numpy as np
import onnxruntime

from bench.daemon import mlp, served, wait_until
from bench.measuring import milliseconds
from bench.requests.plain_http import Poster
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
        session, body = bare_session(model), json.dumps({"inputs": {"x": x[0].tolist()}})
        bare = warmed_up(lambda: session.run(None, {"x": x[:1]}))
        with closing(Poster(daemon, "/v1/models/m/predict")) as ask:
            idle = warmed_up(lambda: ask(body))
        daemon.upload("m", x=x, label=generator.integers(0, 10, len(x)))
        job = daemon.ask_for_job("m", max_seconds=600, epochs=1_000_000, ignore_policy=True)
        daemon.wait_for_job(job["id"], "running")
        wait_until(lambda: daemon.job(job["id"])["progress"].get("step"), "the first step")
        # Another connection: the daemon closes one that is idle for five seconds.
        with closing(Poster(daemon, "/v1/models/m/predict")) as ask:
            training = warmed_up(lambda: ask(body))
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


def bare_session(model: bytes) -> onnxruntime.InferenceSession:
    """The same without a daemon, with as many threads as the predictor uses by default."""
    from service.device.memory import default_threads

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = default_threads()
    return onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def warmed_up(work: Callable[[], object]) -> list[float]:
    """The milliseconds of each call but the first ones."""
    return milliseconds(work, WARM_UP + ROUNDS)[WARM_UP:]


def p99(spent: list[float]) -> float:
    """The 99th percentile."""
    return quantiles(spent, n=100)[-1]
