"""What a foreground process loses while a job trains under the default policy.

Windows of a quarter of a second alternate: the burners alone, next to the training child, and next
to a bare loop that yields as the child does and touches no memory. They are short and many because
a shared machine's own speed varies by tens of percent within seconds. A child that does not train
is stopped by SIGSTOP. The cost of the bare loop is the machine's: a busy processor slows its
neighbour.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from bench.daemon import Served, add_mlp, served, wait_until
from bench.needs import LINUX
from bench.table import Row

ROUNDS = 150
WINDOW_S = 0.25
SAMPLES = 20_000
BURNER = """
import sys, time
for _ in sys.stdin:
    end, count, used = time.perf_counter() + float(sys.argv[1]), 0, time.process_time()
    while time.perf_counter() < end:
        for _ in range(1000):
            pass
        count += 1
    print(count, time.process_time() - used, flush=True)
"""
BARE_LOOP = """
from service.training.limits import apply_limits
from service.training.protocol.messages.shared import ResourceLimits
apply_limits(ResourceLimits())
print("yields", flush=True)
while True:
    pass
"""
NEEDS = (LINUX,)
SMALLEST = {"ROUNDS": 2, "WINDOW_S": 0.05, "SAMPLES": 500}


def run() -> list[Row]:
    """Beside a job with a thread for each processor: one burner, then as many as processors.

    Then one burner beside a job with one thread, as jobs have that start on a device in use.
    """
    rows, every = [], os.cpu_count() or 1
    for threads, numbers in ((every, (1, every)), (1, (1,))):
        with served(training_threads=threads) as daemon:
            add_mlp(daemon, "m", 784, 512, 512, 10, samples=SAMPLES)
            for processes in numbers:
                row = _measure(daemon, processes=processes)
                beside = f"{processes} beside {threads} threads of a job"
                must = "≤ 5 %" if processes == 1 else "-"
                rows.append({"foreground processes": beside, **row, "must reach": must})
    return rows


@dataclass(frozen=True, slots=True)
class Window:
    """The work of all burners: loops, and the processor time that they got, in seconds."""

    loops: float
    used_s: float


def _measure(daemon: Served, *, processes: int) -> Row:
    job_id = daemon.ask_for_job("m", epochs=1_000_000)["id"]
    daemon.wait_for_job(job_id, "running")
    wait_until(lambda: _step(daemon, job_id) > 0, "the first step")
    child = daemon.child_pid()
    assert child is not None
    with _burners(processes) as burners, _bare_loop() as bare_loop:
        others = {"alone": None, "training": child, "bare loop": bare_loop}
        _stop([child, bare_loop])
        _work(burners)
        first_step = _step(daemon, job_id)
        found = [
            {name: _beside(pid, burners) for name, pid in others.items()} for _ in range(ROUNDS)
        ]
        assert daemon.child_pid() == child, "the training child has ended"
        os.kill(child, signal.SIGCONT)
    steps = _step(daemon, job_id) - first_step
    daemon.http.post(f"/v1/jobs/{job_id}/cancel")
    daemon.wait_for_job(job_id, "cancelled")
    losses, bare_losses = _losses(found, "training"), _losses(found, "bare loop")
    low, high = _interval(losses)
    return {
        "alone, loops/s": float(np.median([window["alone"].loops for window in found])) / WINDOW_S,
        "loss, %": float(np.median(losses)),
        "95 % interval": f"{low:.1f} to {high:.1f}",
        "loss beside a bare loop, %": float(np.median(bare_losses)),
        "processor time lost, %": _lost_time(found),
        "steps/s of the job": steps / (ROUNDS * WINDOW_S),
    }


def _losses(found: list[dict[str, Window]], beside: str) -> np.ndarray:
    """The loss of each round, %."""
    return np.array([100 * (1 - window[beside].loops / window["alone"].loops) for window in found])


def _lost_time(found: list[dict[str, Window]]) -> float:
    """Processor time that the scheduler took from the burners, %; not a slower processor."""
    alone, beside = (sum(window[name].used_s for window in found) for name in ("alone", "training"))
    return 100 * (1 - beside / alone)


def _interval(losses: np.ndarray) -> tuple[float, float]:
    """The 95 % interval of the median, by bootstrap."""
    rows = np.random.default_rng(0).integers(0, len(losses), (2000, len(losses)))
    low, high = np.percentile(np.median(losses[rows], axis=1), [2.5, 97.5])
    return float(low), float(high)


def _beside(pid: int | None, burners: list[subprocess.Popen[str]]) -> Window:
    if pid is None:
        return _work(burners)
    os.kill(pid, signal.SIGCONT)
    try:
        return _work(burners)
    finally:
        _stop([pid])


def _stop(pids: Iterable[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)


def _work(burners: list[subprocess.Popen[str]]) -> Window:
    for burner in burners:
        assert burner.stdin is not None
        burner.stdin.write("go\n")
        burner.stdin.flush()
    said = [burner.stdout.readline().split() for burner in burners if burner.stdout]
    return Window(sum(float(loops) for loops, _ in said), sum(float(used) for _, used in said))


@contextmanager
def _burners(count: int) -> Iterator[list[subprocess.Popen[str]]]:
    """Foreground programs, in a separate session like a desktop's."""
    burners = [
        subprocess.Popen(
            [sys.executable, "-c", BURNER, str(WINDOW_S)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        for _ in range(count)
    ]
    try:
        yield burners
    finally:
        for burner in burners:
            burner.kill()
            burner.communicate()


@contextmanager
def _bare_loop() -> Iterator[int]:
    with subprocess.Popen(
        [sys.executable, "-c", BARE_LOOP], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        said = process.stdout.readline()
        assert said, f"the bare loop has ended: exit code {process.wait()}"
        try:
            yield process.pid
            assert process.poll() is None, f"the bare loop has ended: {process.returncode}"
        finally:
            process.kill()


def _step(daemon: Served, job_id: int) -> int:
    return int(daemon.job(job_id)["progress"]["step"])
