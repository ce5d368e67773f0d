"""Real architectures at usual sizes, whole and with a frozen part, in the daemon and in PyTorch.

The rows of `bench frameworks` come first. Of the others, rounds alternate a job on two threads, one
on one thread, and PyTorch eager, channels last and compiled, each on one and on two threads, all in
processes of their own; figures are medians, and the fastest of PyTorch's forms is the bar. Of both
sides the first steps, which touch their memory for the first time, do not count. A row that fails
does not end the others, but fails the bench.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from bench import watched
from bench.daemon import Served, job_s, served, train
from bench.needs import LINUX, ROOT, TORCH, ZOO
from bench.table import Row
from bench.training import frameworks

ROUNDS = 3
SECONDS = 3.0
"""Of steps, of each contender in a round."""
ROWS: Collection[str] = ()
"""Names of networks and of cases of `bench frameworks`; all if empty."""
FORMS = ("eager", "channels_last", "compiled")
THREADS = (2, 1)
NEEDS = (LINUX, TORCH, ZOO)
SMALLEST = {"ROUNDS": 1, "SECONDS": 0.1, "FORMS": ("eager",), "ROWS": ("lstm",)}


@dataclass(frozen=True, slots=True)
class Found:
    """Of one contender in one round."""

    samples_per_second: float
    peak_mb: float
    seconds: float = 0.0


def run() -> Iterator[Row]:
    """Rows of PyTorch's best form, and their geometric means."""
    cases = [case for case in frameworks.CASES if not ROWS or case.name in ROWS]
    networks: dict[str, list[str]] = _side("list")
    unknown = {*ROWS} - {*networks, *(case.name for case in cases)}
    if unknown:
        raise SystemExit(f"no row is named {', '.join(sorted(unknown))}")
    results, failed = frameworks.run(cases), []
    yield from results
    for name, tail in networks.items():
        if ROWS and name not in ROWS:
            continue
        for prefixes in [[], tail] if tail else [[]]:
            try:
                results.append(_row(name, prefixes))
                yield results[-1]
            except (AssertionError, OSError, subprocess.CalledProcessError) as error:
                failed.append(f"{name}: {error}")
                print(f"FAILED {failed[-1]}", flush=True)
    yield from _means(results)
    if failed:
        raise SystemExit("\n".join(["these rows failed:", *failed]))


def _side(*arguments: str) -> Any:
    """PyTorch's side, see networks_side.py."""
    said = subprocess.run(_command(*arguments), cwd=ROOT, check=True, stdout=subprocess.PIPE)
    return json.loads(said.stdout.splitlines()[-1])


def _command(*arguments: str) -> list[str]:
    return ZOO.command("-m", "bench.training.networks_side", *arguments)


def _row(name: str, prefixes: Sequence[str]) -> Row:
    with tempfile.TemporaryDirectory(prefix="honed-bench-") as path:
        folder = Path(path)
        about = _side("export", name, str(folder))
        ours: dict[int, list[Found]] = defaultdict(list)
        theirs: dict[tuple[str, int], list[Found]] = defaultdict(list)
        prepare_s = []
        for number in range(ROUNDS):
            for threads in THREADS:
                found, seconds = _ours(folder, about, prefixes, threads)
                ours[threads].append(found)
                prepare_s.append(seconds)
            for form in FORMS:
                for threads in THREADS:
                    if form != "compiled" or number == 0:  # it takes a minute to compile
                        theirs[form, threads].append(_theirs(name, form, prefixes, threads))
    row = _figures(name, prefixes, ours, theirs, prepare_s)
    return {**row, "kind": "convolutional" if about["is_convolutional"] else "other"}


def _ours(
    folder: Path, about: dict[str, Any], prefixes: Sequence[str], threads: int
) -> tuple[Found, float]:
    """A job, by its epochs after the first, and how long the model took to prepare."""
    with (
        np.load(folder / "data.npz") as data,
        served(training_threads=threads, training_nice=0) as daemon,
    ):
        spec: dict[str, object] = {"loss": about["loss"]}
        if prefixes:
            spec["trainable"] = [f"{prefix}*" for prefix in prefixes]
        began = time.perf_counter()
        daemon.register("m", (folder / "model.onnx").read_bytes(), **spec)
        prepare_s = time.perf_counter() - began
        daemon.upload("m", split="train", **data)
        rows, size = len(data["label"]), about["batch_size"]
        first = _job(daemon, size, epochs=1)
        more = max(2, round(SECONDS * first.samples_per_second / rows))
        whole = _job(daemon, size, epochs=1 + more)
        took = (1 + more) / whole.samples_per_second - 1 / first.samples_per_second
        assert took > 0, f"{1 + more} epochs took no longer than one"
        return replace(whole, samples_per_second=more / took), prepare_s


def _job(daemon: Served, batch_size: int, *, epochs: int) -> Found:
    with watched.watching(lambda: watched.children(daemon.process.pid)) as peak:
        done = train(
            daemon,
            "m",
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=1e-4,
            **{"from": "base"},
        )
    pace = done["progress"]["samples_per_second"]
    return Found(pace, peak.own, job_s(done))


def _theirs(name: str, form: str, prefixes: Sequence[str], threads: int) -> Found:
    command = _command("train", name, form, str(threads), str(SECONDS), *prefixes)
    found, peak = watched.run(command)
    return Found(found["samples_per_second"], peak.own)


def _figures(
    name: str,
    prefixes: Sequence[str],
    ours: dict[int, list[Found]],
    theirs: dict[tuple[str, int], list[Found]],
    prepare_s: Sequence[float],
) -> Row:
    paces = {key: median(run.samples_per_second for run in of) for key, of in theirs.items()}
    best = max(paces, key=lambda key: paces[key])
    one = max(pace for (_, threads), pace in paces.items() if threads == 1)
    own = {n: median(run.samples_per_second for run in of) for n, of in ours.items()}
    peak = median(run.peak_mb for run in ours[2])
    their_peak = median(run.peak_mb for run in theirs[best])
    return {
        "model": f"{name}, a part" if prefixes else name,
        "honed samples/s": own[2],
        "PyTorch samples/s": paces[best],
        "samples/s ÷ PyTorch": own[2] / paces[best],
        "on one thread": own[1] / one,
        "PyTorch's best": f"{best[0]}, {best[1]}",
        "honed request to version s": median(run.seconds for run in ours[2]),
        "honed peak MB": peak,
        "PyTorch peak MB": their_peak,
        "peak ÷ PyTorch": peak / their_peak,
        "prepare s": median(prepare_s),
        "must reach": "≥ 0.9, on one thread ≥ 0.85, peak ≤ 0.6",
    }


def _means(results: Sequence[Row]) -> list[Row]:
    """The geometric means of all rows, and of those of convolutional networks."""
    means: list[Row] = []
    for name, rows, must in (
        ("geometric mean", results, "≥ 1.3"),
        ("of convolutional", [r for r in results if r.get("kind") == "convolutional"], "≥ 1.1"),
    ):
        ratios = [row["samples/s ÷ PyTorch"] for row in rows]
        if ratios:
            mean = exp(sum(map(log, ratios)) / len(ratios))
            means.append({"model": name, "samples/s ÷ PyTorch": mean, "must reach": must})
    return means
