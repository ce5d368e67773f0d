"""Trains every case with an engine of Hone, and compares with what PyTorch came to.

    python -m tests.zoo.run FOLDER [--engine sessions] [--json FILE] [PREFIX…]

Runs in the project's own environment; needs no torch. A case passes if the outputs on held rows are
within 2 % of the way that PyTorch's outputs went in five steps. Exits with 1 if one does not.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import re
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from service.training.errors import GraphRefused
from tests.zoo.case import Case, read
from tests.zoo.trainers import TRAINERS, Array

LIMIT = 0.02
PASSED, WRONG, REFUSED, FAILED, CRASHED = "passed", "wrong", "refused", "failed", "crashed"


@dataclass(frozen=True, slots=True)
class Verdict:
    """error: gap to PyTorch relative to the way it went; NaN where training did not end."""

    case: str
    verdict: str
    error: float
    seconds: float
    text: str = ""


def main() -> int:
    """Print a line for each case and a sum."""
    asked = _arguments()
    cases = [case for case in read(asked.folder) if case.name.startswith(asked.prefixes)]
    verdicts = []
    for verdict in _verdicts(cases, asked):
        line = (
            f"{verdict.case:34} {verdict.verdict:8} {verdict.error:9.1e} {verdict.seconds:5.1f} s"
        )
        print(f"{line}  {verdict.text}"[: asked.width].rstrip(), flush=True)
        verdicts.append(verdict)
    if asked.json:
        asked.json.write_text(json.dumps([asdict(verdict) for verdict in verdicts], indent=1))
    passed = sum(verdict.verdict == PASSED for verdict in verdicts)
    print(f"{passed} of {len(verdicts)} cases pass")
    return 0 if verdicts and passed == len(verdicts) else 1


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="what make.py wrote")
    parser.add_argument("prefixes", nargs="*", help="of the cases to run; all by default")
    parser.add_argument("--engine", choices=TRAINERS, default="sessions")
    parser.add_argument("--json", type=Path, help="where the verdicts go, too")
    parser.add_argument("--width", type=int, default=200, help="of a line")
    asked = parser.parse_intermixed_args()
    asked.prefixes = tuple(asked.prefixes) or ("",)
    return asked


def _verdicts(cases: list[Case], asked: argparse.Namespace) -> Iterator[Verdict]:
    """One process for all cases, and another one after a crash."""
    spawn = multiprocessing.get_context("spawn")
    while cases:
        with ProcessPoolExecutor(1, spawn) as pool:
            try:
                while cases:
                    yield pool.submit(judge, cases[0], asked.folder, asked.engine).result()
                    del cases[0]
            except BrokenProcessPool:
                yield Verdict(cases.pop(0).name, CRASHED, np.nan, 0.0, "the process died")


def judge(case: Case, folder: Path, engine: str) -> Verdict:
    """Train one case."""
    began = time.perf_counter()
    with np.load(folder / f"{case.name}.npz") as data:
        arrays = dict(data)
    try:
        error = _error(case, folder, arrays, engine)
        verdict, text = (PASSED if error <= LIMIT else WRONG), ""
    except GraphRefused as refusal:
        verdict, error, text = REFUSED, np.nan, _causes(refusal)
    except Exception as failure:  # noqa: BLE001 - the verdict says which
        verdict, error = FAILED, np.nan
        text = " ".join(f"{type(failure).__name__}: {failure}".split())
    return Verdict(case.name, verdict, error, time.perf_counter() - began, text)


def _causes(refusal: GraphRefused) -> str:
    """How often each operator is named, and the first cause in full."""
    details = [problem.detail for problem in refusal.problems]
    kinds = Counter(kind for detail in details for kind in re.findall(r"\((\w+)\)", detail)[:1])
    return ", ".join(f"{kind} {count}" for kind, count in kinds.items()) + f": {details[0]}"


def _error(case: Case, folder: Path, arrays: dict[str, Array], engine: str) -> float:
    trainer = TRAINERS[engine](
        folder / case.model, loss=case.loss, output=case.output, trainable=case.trainable
    )
    held = {name: arrays[f"held.{name}"] for name in case.inputs}
    before, after = arrays["before"], arrays["after"]
    scale = float(np.linalg.norm(before))
    gap = float(np.linalg.norm(trainer.outputs(held) - before)) / scale
    if not gap < 1e-4:
        raise ValueError(f"the untrained model is {gap:.1e} off: the export or its preparation")
    for step, target in enumerate(arrays["target"]):
        inputs = {name: arrays[f"train.{name}"][step] for name in case.inputs}
        trainer.step(inputs, target, case.learning_rate)
    gap = float(np.linalg.norm(trainer.outputs(held) - after))
    return gap / float(np.linalg.norm(after - before))


if __name__ == "__main__":
    sys.exit(main())
