"""Texts of 8 to 128 tokens: a decoder and a classifier in the daemon, and in PyTorch.

PyTorch pads each batch to its longest text, eager, with fused AdamW, on one and on two threads, and
with batches of similar length as well; its best of all four counts. All sides are run in turn in
each round. PyTorch's texts are ids in memory.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers

from bench import watched
from bench.daemon import Served, served, train
from bench.needs import LINUX, TORCH
from bench.table import Row

NEEDS = (LINUX, TORCH)
VOCABULARY, SHORTEST, LONGEST, CLASSES = 4096, 8, 128, 4
THREADS, ROUNDS, BATCH_SIZE, EPOCHS = 2, 3, 16, 1
SIDE = Path(__file__).with_name("texts_torch.py")


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    loss: str
    texts: int


CASES = (Case("classifier", "cross_entropy", 1000), Case("decoder", "causal_lm", 500))
SMALLEST = {"CASES": (Case("classifier", "cross_entropy", 24),), "ROUNDS": 1}


def run() -> list[Row]:
    """One row per case."""
    with tempfile.TemporaryDirectory(prefix="honed-bench-") as name:
        return [_case(case, Path(name)) for case in CASES]


def _case(case: Case, folder: Path) -> Row:
    model, data = folder / f"{case.name}.onnx", folder / f"{case.name}.npz"
    command = TORCH.command(SIDE, "export", case.name, model)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    texts, labels = material(case.texts)
    ids = [[int(word[1:]) for word in text.split()] for text in texts]
    ends = np.cumsum([len(text) for text in ids])
    np.savez(data, ids=np.concatenate(ids), ends=ends, labels=labels)
    sides: dict[str, list[float]] = {}
    with served(training_threads=THREADS, training_nice=0) as daemon:
        _register(daemon, case, model, texts, labels)
        for _ in range(ROUNDS):
            sides.setdefault("ours", []).append(_ours(daemon, case))
            for threads in range(1, THREADS + 1):
                for order in ("shuffled", "by_length"):
                    asked = ("train", case.name, data, EPOCHS, BATCH_SIZE, threads, order)
                    found, _ = watched.run(TORCH.command(SIDE, *asked))
                    pace = found["samples_per_second"]
                    sides.setdefault(f"{order} {threads}", []).append(pace)
    ours = sides.pop("ours")
    best = max(sides, key=lambda side: median(sides[side]))
    shuffled = max(median(paces) for side, paces in sides.items() if "shuffled" in side)
    return {
        "model": case.name,
        "texts": case.texts,
        "honed texts/s": median(ours),
        "PyTorch texts/s, shuffled": shuffled,
        "PyTorch texts/s, best": median(sides[best]),
        "÷ PyTorch, shuffled": median(ours) / shuffled,
        "÷ PyTorch, best": median(a / b for a, b in zip(ours, sides[best], strict=True)),
    }


def material(count: int) -> tuple[list[str], np.ndarray]:
    """Texts of words w0, w1, …, each a token, with uniform lengths, and their classes."""
    rng = np.random.default_rng(1)
    labels = rng.integers(0, CLASSES, count)
    texts = []
    for label, length in zip(labels, rng.integers(SHORTEST, LONGEST + 1, count), strict=True):
        words = rng.integers(0, VOCABULARY // CLASSES, length) * CLASSES + label
        texts.append(" ".join(f"w{word}" for word in words))
    return texts, labels


def tokenizer() -> bytes:
    """Each word is a token."""
    words = {f"w{number}": number for number in range(VOCABULARY)}
    made = Tokenizer(models.WordLevel(words, unk_token="w0"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return made.to_str().encode()


def _register(
    daemon: Served, case: Case, model: Path, texts: list[str], labels: np.ndarray
) -> None:
    spec: dict[str, Any] = {
        "name": case.name,
        "loss": case.loss,
        "preprocess": {"kind": "text", "max_tokens": LONGEST},
    }
    files = {"model": ("m.onnx", model.read_bytes()), "tokenizer": ("t.json", tokenizer())}
    daemon.http.post("/v1/models", data={"spec": json.dumps(spec)}, files=files)
    has_label = case.loss == "cross_entropy"
    for at in range(0, len(texts), 250):
        some = texts[at : at + 250]
        about: list[dict[str, Any]] = [{"split": "train"} for _ in some]
        for sample, label in zip(about, labels[at : at + 250].tolist(), strict=True):
            sample.update({"label": label} if has_label else {})
        sent = [("file", (f"{n}.txt", text.encode(), "text/plain")) for n, text in enumerate(some)]
        url = f"/v1/models/{case.name}/samples"
        daemon.http.post(url, files=sent, data={"samples": json.dumps(about)})


def _ours(daemon: Served, case: Case) -> float:
    asked = {"epochs": EPOCHS, "batch_size": BATCH_SIZE, "learning_rate": 1e-3, "from": "base"}
    done = train(daemon, case.name, **asked)
    return float(done["progress"]["samples_per_second"])
