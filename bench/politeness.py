"""What a foreground process loses while a job trains under the default policy."""

from __future__ import annotations

import os
import subprocess
import sys
from statistics import median

import numpy as np

from bench.daemon import Served, mlp, served, wait_until
from bench.table import Row

ROUNDS = 9
WINDOW_S = 2.0
BURNER = f"""
import sys, time
for _ in sys.stdin:
    end, count = time.perf_counter() + {WINDOW_S}, 0
    while time.perf_counter() < end:
        for _ in range(1000):
            pass
        count += 1
    print(count, flush=True)
"""


def run() -> list[Row]:
    """One process, then as many as there are processors; with training and without, in turn."""
    generator = np.random.default_rng(0)
    x = generator.random((20_000, 784), dtype=np.float32)
    with served() as daemon:
        daemon.register("m", mlp(784, 512, 512, 10))
        daemon.upload("m", x=x, label=generator.integers(0, 10, len(x)))
        return [
            _measure(daemon, "one foreground process", processes=1, must="≤ 5 %"),
            _measure(daemon, "every processor busy", processes=os.cpu_count() or 1, must="-"),
        ]


def _measure(daemon: Served, what: str, *, processes: int, must: str) -> Row:
    burners = [_start() for _ in range(processes)]
    job_id = daemon.ask_for_job("m", epochs=1_000_000)["id"]
    daemon.wait_for_job(job_id, "running")
    alone, beside, steps = [], [], []
    _work(burners)
    for _ in range(ROUNDS):
        _pause(daemon, job_id)
        alone.append(_work(burners))
        steps_before = _resume(daemon, job_id)
        beside.append(_work(burners))
        steps.append(daemon.job(job_id)["progress"]["step"] - steps_before)
    daemon.http.post(f"/v1/jobs/{job_id}/cancel")
    for burner in burners:
        burner.kill()
        burner.wait()
    losses = [100 * (1 - b / a) for a, b in zip(alone, beside, strict=True)]
    return {
        "what": what,
        "alone, loops/s": median(alone) / WINDOW_S,
        "beside training, loops/s": median(beside) / WINDOW_S,
        "loss, %": median(losses),
        "loss min": min(losses),
        "loss max": max(losses),
        "steps/s of the job": median(steps) / WINDOW_S,
        "must reach": must,
    }


def _start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", BURNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )


def _work(burners: list[subprocess.Popen[str]]) -> int:
    for burner in burners:
        assert burner.stdin is not None
        burner.stdin.write("go\n")
        burner.stdin.flush()
    return sum(int(burner.stdout.readline()) for burner in burners if burner.stdout)


def _pause(daemon: Served, job_id: int) -> None:
    daemon.http.post("/v1/pause")
    daemon.wait_for_job(job_id, "paused")


def _resume(daemon: Served, job_id: int) -> int:
    """The step at which it goes on, once it does."""
    step: int = daemon.job(job_id)["progress"]["step"]
    daemon.http.post("/v1/resume")
    wait_until(lambda: daemon.job(job_id)["progress"]["step"] > step, "the job to go on")
    return int(daemon.job(job_id)["progress"]["step"])
