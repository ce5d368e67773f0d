"""What the idle daemon costs: memory after one finished job, time to the first answer."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import httpx
import numpy as np
import psutil

from bench.daemon import mlp, served, wait_until
from bench.table import Row

STARTS = 7
SAMPLES = 20_000
SMALLEST = {"STARTS": 1, "SAMPLES": 500}


def run() -> list[Row]:
    """Memory and start-up of the daemon, compared with a bare interpreter's."""
    ready = [_seconds_to_ready() for _ in range(STARTS)]
    bare = [_seconds(["-c", "pass"]) for _ in range(STARTS)]
    rests, resident = _resident_mb()
    interpreter = _interpreter_mb()
    return [
        {
            "what": "resident after the start, MB",
            "honed": rests,
            "bare": interpreter,
            "ratio": rests / interpreter,
            "must reach": "≤ 70 MB",
        },
        {
            "what": "resident after one job, MB",
            "honed": resident,
            "bare": interpreter,
            "ratio": resident / interpreter,
            "must reach": "≤ 75 MB",
        },
        {
            "what": "start to answer, s",
            "honed": median(ready),
            "bare": median(bare),
            "ratio": median(ready) / median(bare),
            "must reach": "≤ 1.0 s",
        },
    ]


def _resident_mb() -> tuple[float, float]:
    """After the start, and after one job."""
    generator = np.random.default_rng(0)
    x = generator.random((SAMPLES, 784), dtype=np.float32)
    with served() as daemon:
        process = psutil.Process(daemon.process.pid)
        rests = process.memory_info().rss / 2**20
        daemon.register("m", mlp(784, 512, 512, 10))
        daemon.upload("m", x=x, label=generator.integers(0, 10, len(x)))
        daemon.train("m", epochs=1)
        daemon.http.get("/v1/models/m/latest/model.onnx")
        return rests, process.memory_info().rss / 2**20


def _interpreter_mb() -> float:
    script = "import psutil; print(psutil.Process().memory_info().rss / 2**20)"
    command = [sys.executable, "-c", script]
    return float(subprocess.run(command, capture_output=True, check=True).stdout)


def _seconds(arguments: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True)
    return time.perf_counter() - began


def _seconds_to_ready() -> float:
    with tempfile.TemporaryDirectory() as folder:
        port = _free_port()
        command = ["-m", "cli", "serve", "--port", str(port), "--data-dir", str(Path(folder) / "d")]
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            wait_until(lambda: _answers(process, port), "the daemon to answer", poll_s=0.005)
            return time.perf_counter() - began
        finally:
            process.terminate()
            process.wait()


def _answers(process: subprocess.Popen[bytes], port: int) -> bool:
    assert process.poll() is None, f"the daemon has ended: exit code {process.returncode}"
    try:
        return httpx.get(f"http://127.0.0.1:{port}/readyz", trust_env=False).status_code == 200
    except httpx.TransportError:
        return False


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
