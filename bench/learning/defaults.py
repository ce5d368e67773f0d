"""What a job without hyperparameters learns, compared with manual recipes.

The digits are the demo's, seen by its camera and judged on held-out ones. The other data sets are
tables, judged on the third that is not uploaded. The last row measures forgetting: clean digits,
of which those that the model was pre-trained on are the base set.
"""

from __future__ import annotations

import gzip
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any
from uuid import uuid4

import numpy as np
from numpy.typing import NDArray

from bench.daemon import (
    Samples,
    Served,
    add_base_set,
    device_digits,
    digits_cnn,
    job_s,
    latest,
    mlp,
    predicted,
    served,
    train,
)
from bench.table import Row
from cli.demo.digits import folder, kept_back

Array = NDArray[Any]
SEEDS = (0, 1, 2)
LONG: dict[str, Any] = {"epochs": 40, "learning_rate": 0.002, "schedule": "cosine"}
RECIPES = [LONG | {"learning_rate": rate, "batch_size": 16} for rate in (0.001, 0.004, 0.01)]
RARE = (3, 8)
"""Digits with four pictures where the others have eighty."""
TABLES = {"iris": (32,), "wine": (64, 64), "breast_cancer": (64,)}
"""Hidden layers."""
DEFAULT: dict[str, Any] = {}
OF_DIGITS = {"5 epochs": {"epochs": 5}, "40 epochs": LONG, "no flag": DEFAULT}
SMALLEST = {
    "SEEDS": (0,),
    "RECIPES": [{"epochs": 1}],
    "TABLES": {"iris": (8,)},
    "DEFAULT": {"epochs": 1},
    "OF_DIGITS": {"no flag": {"epochs": 1}},
}


@dataclass(frozen=True)
class Task:
    """Samples to upload and samples to judge by. input: its name in the model."""

    name: str
    model: bytes
    input: str
    train: Samples
    judge: Samples
    spec: dict[str, Any]


def run() -> list[Row]:
    """Each recipe with three seeds, interleaved; medians."""
    with served() as daemon:
        rows = [_digits(daemon, task) for task in digits()]
        rows += [_table(daemon, task) for task in tables()]
        return [*rows, _forgetting(daemon, digits()[0])]


def _digits(daemon: Served, task: Task) -> Row:
    found: dict[str, list[Row]] = {name: [] for name in OF_DIGITS}
    for seed in SEEDS:
        for name, recipe in OF_DIGITS.items():
            found[name].append(trained(daemon, task, seed=seed, **recipe))
    row: Row = {"task": task.name}
    for name, results in found.items():
        row |= {f"{name} {what}": median(result[what] for result in results) for what in results[0]}
    return row


def _table(daemon: Served, task: Task) -> Row:
    """The best of several recipes, each by the median over its seeds, and the default."""

    def accuracy(**recipe: Any) -> float:
        return median(trained(daemon, task, seed=seed, **recipe)["accuracy"] for seed in SEEDS)

    best = max(accuracy(**recipe) for recipe in RECIPES)
    return {
        "task": task.name,
        "best recipe accuracy": best,
        "no flag accuracy": accuracy(**DEFAULT),
    }


def _forgetting(daemon: Served, task: Task) -> Row:
    """Accuracy on clean digits, which a model knew, after it has learned the camera's."""
    sys.path.insert(0, str(folder()))
    import dataset

    known, _, judged = ((part.images, part.labels) for part in dataset.split())
    row: Row = {"task": "clean digits after all 1,000"}
    for name, base in {"no base set": None, "base set": known}.items():
        found = [
            trained(daemon, task, seed=seed, base=base, clean=judged, **DEFAULT) for seed in SEEDS
        ]
        for what in ("clean", "accuracy", "s"):
            row[f"{name} {what}"] = median(figures[what] for figures in found)
    return row


def trained(
    daemon: Served,
    task: Task,
    *,
    base: Samples | None = None,
    clean: Samples | None = None,
    **asked: Any,
) -> Row:
    """Train a model, and measure it on the samples to judge by.

    base: its base set. clean: other samples to judge by.
    """
    name = f"{task.name}-{uuid4()}"
    daemon.register(name, task.model, gate={"mode": "always"}, **task.spec)
    daemon.upload(name, **{task.input: task.train[0], "label": task.train[1]})
    if base is not None:
        add_base_set(daemon, name, **{task.input: base[0], "label": base[1]})
    job = train(daemon, name, ignore_policy=True, **asked)
    version = latest(daemon, name)
    inputs, labels = task.judge
    for step in daemon.http.get(f"/v1/models/{name}").json()["preprocess"]:
        inputs = ((inputs - step["mean"]) / step["std"]).astype(np.float32)
    read = predicted(version, **{task.input: inputs})
    rare = np.isin(labels, RARE)
    knows = {}
    if clean is not None:
        of_clean = predicted(version, **{task.input: clean[0]})
        knows = {"clean": float((of_clean == clean[1]).mean())}
    return knows | {
        "accuracy": float((read == labels).mean()),
        "macro F1": _macro_f1(read, labels),
        "rare": float((read[rare] == labels[rare]).mean()) if rare.any() else 0.0,
        "s": job_s(job, since="started_at"),
    }


def _macro_f1(read: Array, labels: Array) -> float:
    scores = []
    for label in np.unique(labels):
        hits = int(((read == label) & (labels == label)).sum())
        scores.append(2 * hits / int((read == label).sum() + (labels == label).sum()))
    return float(np.mean(scores))


def digits() -> list[Task]:
    """Four tasks of people who have pictures but no recipe."""
    images, labels = device_digits()
    few = np.concatenate([np.flatnonzero(labels == digit)[:10] for digit in range(10)])
    counts = [4 if digit in RARE else 80 for digit in range(10)]
    skewed = np.concatenate([np.flatnonzero(labels == c)[:n] for c, n in enumerate(counts)])
    rng = np.random.default_rng(5)
    wrong = labels.copy()
    some = rng.permutation(len(labels))[: len(labels) // 10]
    wrong[some] = (wrong[some] + rng.integers(1, 10, len(some))) % 10
    stories = {
        "all 1,000": (images, labels),
        "ten a class": (images[few], labels[few]),
        "skewed": (images[skewed], labels[skewed]),
        "a tenth mislabelled": (images, wrong),
    }
    return [
        Task(name.replace(" ", "-").replace(",", ""), digits_cnn(), "image", data, kept_back(), {})
        for name, data in stories.items()
    ]


def tables() -> list[Task]:
    """Small tables, standardized, for perceptrons with random weights."""
    found = []
    for name, hidden in TABLES.items():
        x, labels = table(name)
        order = np.random.default_rng(3).permutation(len(x))
        x, labels = x[order].astype(np.float32), labels[order]
        cut = len(x) * 2 // 3
        model = mlp(x.shape[1], *hidden, int(labels.max()) + 1)
        spec = {"preprocess": {"input": "x", "kind": "standardize", "learn_from": 1000}}
        parts = (x[:cut], labels[:cut]), (x[cut:], labels[cut:])
        found.append(Task(name, model, "x", *parts, spec))
    return found


def table(name: str) -> Samples:
    """Rows as they are in the file, and their classes."""
    with gzip.open(Path(__file__).parent / "data_sets" / f"{name}.csv.gz", "rt") as file:
        rows = np.loadtxt(file, delimiter=",")
    return rows[:, :-1], rows[:, -1].astype(np.int64)
