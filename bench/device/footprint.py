"""What the idle daemon costs: memory after one finished job, time to the first answer."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import psutil

from bench.daemon import add_mlp, served, wait_until
from bench.measuring import free_port, seconds, status_of
from bench.table import Row

STARTS = 7
SAMPLES = 20_000
SMALLEST = {"STARTS": 1, "SAMPLES": 500}


def run() -> list[Row]:
    """Memory and start-up of the daemon, compared with a bare interpreter's."""
    ready = [_seconds_to_ready() for _ in range(STARTS)]
    nothing = [sys.executable, "-c", "pass"]
    bare = [seconds(lambda: subprocess.run(nothing, check=True)) for _ in range(STARTS)]
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
    with served() as daemon:
        process = psutil.Process(daemon.process.pid)
        rests = process.memory_info().rss / 2**20
        add_mlp(daemon, "m", 784, 512, 512, 10, samples=SAMPLES)
        daemon.train("m", epochs=1)
        daemon.http.get("/v1/models/m/latest/model.onnx")
        return rests, process.memory_info().rss / 2**20


def _interpreter_mb() -> float:
    script = "import psutil; print(psutil.Process().memory_info().rss / 2**20)"
    command = [sys.executable, "-c", script]
    return float(subprocess.run(command, capture_output=True, check=True).stdout)


def _seconds_to_ready() -> float:
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        command = ["-m", "cli", "serve", "--port", str(port), "--data-dir", str(Path(folder) / "d")]
        url = f"http://127.0.0.1:{port}/readyz"
        began = time.perf_counter()
        process = subprocess.Popen(
            [sys.executable, *command], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        try:
            wait_until(lambda: status_of(process, url) == 200, "the daemon to answer", poll_s=0.005)
            return time.perf_counter() - began
        finally:
            process.terminate()
            process.wait()
