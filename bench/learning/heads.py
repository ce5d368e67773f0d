"""Heads on a frozen backbone, from ten samples per class: time and accuracy.

The backbones are of examples/frozen_backbone (digits that a camera saw, judged on those that are
kept back), and perceptrons of random weights on tables, judged on all that is not drawn. Each seed
draws other samples.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any
from uuid import uuid4

import numpy as np
import psutil

from bench.daemon import (
    Samples,
    Served,
    device_digits,
    digits_cnn,
    latest,
    mlp,
    predicted,
    served,
    train,
)
from bench.learning.defaults import table
from bench.needs import LINUX
from bench.table import Row
from cli.demo.digits import kept_back

SEEDS = range(8)
A_CLASS = 10
ASKED: dict[str, dict[str, Any]] = {
    "prototype": {"head": {"kind": "prototype"}},
    "knn": {"head": {"kind": "knn"}},
    "5 epochs": {"head": {"kind": "linear"}, "epochs": 5},
    "linear": {"head": {"kind": "linear"}},
    "full": {"head": {"kind": "full"}},
    "auto": {"head": "auto"},
}
OF_THREE = ("prototype", "linear", "full")
TABLES = {"wine": (256, 64), "breast_cancer": (256, 64), "iris": (256, 64)}
HURRIES = 3
JUDGED: int | None = None
"""How many of the digits that are kept back; None for all."""
NEEDS = (LINUX,)
SMALLEST = {
    "SEEDS": (0,),
    "A_CLASS": 4,
    "ASKED": {
        "prototype": ASKED["prototype"],
        **{name: ASKED[name] | {"epochs": 1} for name in ("5 epochs", "linear", "full")},
        "auto": ASKED["prototype"],
    },
    "TABLES": {},
    "HURRIES": 1,
    "JUDGED": 8,
}


@dataclass(frozen=True)
class Task:
    """Samples to learn from, of which ten a class are drawn, and samples to judge by.

    judge: None for all that is not drawn.
    """

    name: str
    model: bytes
    input: str
    pool: Samples
    judge: Samples | None
    spec: dict[str, Any]

    def draw(self, seed: int) -> tuple[Samples, Samples]:
        """Samples to train on, and to judge by."""
        inputs, labels = self.pool
        order = np.random.default_rng(seed).permutation(len(labels))
        some = [order[labels[order] == label][:A_CLASS] for label in np.unique(labels)]
        chosen = np.concatenate(some)
        rest = np.setdiff1d(order, chosen)
        return (inputs[chosen], labels[chosen]), self.judge or (inputs[rest], labels[rest])


def run() -> list[Row]:
    """Accuracies by data set, means over the seeds; then seconds from last label to `latest`."""
    with served() as daemon:
        rows = [_accuracies(daemon, task) for task in tasks()]
        numbers = [*ASKED, "auto - best"]
        total: Row = {"task": "mean", **{name: mean(row[name] for row in rows) for name in numbers}}
        return [*rows, total, *_seconds(daemon)]


def _accuracies(daemon: Served, task: Task) -> Row:
    found: dict[str, list[float]] = {name: [] for name in ASKED}
    kinds = []
    for seed in SEEDS:
        for name, asked in ASKED.items():
            if name == "full" and task.spec.get("trainable") == "head":
                found[name].append(found["linear"][-1])  # it is the same
                continue
            share, job = _trained(daemon, task, seed=seed, **asked)
            found[name].append(share)
            if name == "auto":
                kinds.append(job["hyperparameters"]["head"]["kind"])
    means = {name: 100 * mean(shares) for name, shares in found.items()}
    best = max(means[name] for name in OF_THREE)
    return {"task": task.name, **means, "auto - best": means["auto"] - best, "chose": _told(kinds)}


def _told(kinds: list[str]) -> str:
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))


def _trained(
    daemon: Served, task: Task, *, seed: int, **asked: Any
) -> tuple[float, dict[str, Any]]:
    data, judge = task.draw(seed)
    name = f"{task.name}-{uuid4()}"
    daemon.register(name, task.model, gate={"mode": "always"}, **task.spec)
    daemon.upload(name, "train", **{task.input: data[0], "label": data[1]})
    job = train(daemon, name, ignore_policy=True, seed=seed, **asked)
    read = predicted(latest(daemon, name), **{task.input: judge[0]})
    return float((read == judge[1]).mean()), job


def _seconds(daemon: Served) -> Iterator[Row]:
    """Seconds from a class's last sample to the promoted version, by a job and by a trigger."""
    task = next(iter(tasks()))
    for name in ("prototype", "5 epochs"):
        took, cpu = [], []
        for hurry in range(HURRIES):
            model = f"hurry-{name.replace(' ', '-')}-{hurry}"
            daemon.register(model, task.model, gate={"mode": "always"}, **task.spec)
            (inputs, labels), _ = task.draw(hurry)
            daemon.upload(model, **{task.input: inputs[:-1], "label": labels[:-1]})
            train(daemon, model, ignore_policy=True, **ASKED[name])  # caches its features
            before, began = _cpu_s(daemon), time.monotonic()
            daemon.upload(model, "train", **{task.input: inputs[-1:], "label": labels[-1:]})
            train(daemon, model, ignore_policy=True, **ASKED[name])
            took.append(time.monotonic() - began)
            cpu.append(_cpu_s(daemon) - before)
        yield {
            "from the last label to latest": name,
            "s": median(took),
            "least s": min(took),
            "processor s of daemon and children": median(cpu),
        }


def _cpu_s(daemon: Served) -> float:
    """Processor time of the daemon and of its ended children, on Linux."""
    spent = psutil.Process(daemon.process.pid).cpu_times()
    return float(spent.user + spent.system + spent.children_user + spent.children_system)


def tasks() -> list[Task]:
    """Digits with a frozen backbone and with the demo's whole network; tables with a frozen one."""
    sys.path.insert(0, str(Path(__file__).parents[2] / "examples/frozen_backbone"))
    from network import INPUT, SIDE, network  # type: ignore[import-not-found]

    pool, (images, labels) = device_digits(), kept_back()
    judge = images[:JUDGED], labels[:JUDGED]
    factor = SIDE // 8

    def large(data: Samples) -> Samples:
        return data[0].repeat(factor, axis=2).repeat(factor, axis=3), data[1]

    frozen = {"trainable": "head"}
    digits = Task("digits-frozen", network(), INPUT, large(pool), large(judge), frozen)
    whole = Task("digits-whole", digits_cnn(), "image", pool, judge, {})
    return [digits, whole, *(_table(name, hidden) for name, hidden in TABLES.items())]


def _table(name: str, hidden: tuple[int, ...]) -> Task:
    """Standardized by its own moments."""
    x, labels = table(name)
    x = ((x - x.mean(axis=0)) / x.std(axis=0)).astype(np.float32)
    model = mlp(x.shape[1], *hidden, int(labels.max()) + 1)
    return Task(name, model, "x", (x, labels), None, {"trainable": "head"})
