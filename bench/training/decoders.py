"""LoRA on a decoder: LLaMA-like, 28 million parameters, trained briefly, then in int8 and int4.

The decoder (RMS norms, rotary positions, grouped keys, SwiGLU) first learns the project's manual in
float32; adapters of rank 8 on all matrices of its layers then learn the names of its tests. Peaks
are of the training process: `own` is anonymous memory, `resident` includes the mapped base.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from bench import watched
from bench.daemon import Graph, Served, byte_tokenizer, in_float32, in_int4, in_int8, served, train
from bench.daemon import written as as_model
from bench.needs import LINUX
from bench.table import Row

sys.path.append(str(Path(__file__).parents[2] / "examples" / "keyboard"))

from writing import manual, names_of_tests

VOCABULARY, WIDTH, INNER, LAYERS, HEADS, GROUPS = 4096, 512, 1408, 8, 8, 4
LONGEST, RANK, THREADS, BATCH_SIZE = 48, 8, 2, 16
KNOWN, LEARNED = 1200, 600
"""Texts to train the base on, and the adapters."""
BASE = {"epochs": 1, "batch_size": BATCH_SIZE, "learning_rate": 1e-3, "schedule": "cosine"}
ADAPTERS = {"epochs": 2, "batch_size": BATCH_SIZE, "learning_rate": 2e-3, "schedule": "cosine"}
NEEDS = (LINUX,)
SMALLEST = {"WIDTH": 32, "INNER": 48, "LAYERS": 1, "KNOWN": 64, "LEARNED": 64, "VOCABULARY": 300}
Matrices = dict[str, np.ndarray]
Store = Callable[[str, np.ndarray, str, str], Any]
STORED: dict[str, Store] = {"float32": in_float32, "int8": in_int8, "int4": in_int4}


def run() -> list[Row]:
    """One row for each way in which the base's matrices are held."""
    known, learned = manual()[:KNOWN], names_of_tests()[:LEARNED]
    tokenizer = byte_tokenizer(known, size=VOCABULARY)
    base = _trained(known, tokenizer.to_str().encode())
    tokens = np.mean([min(LONGEST, len(text.ids)) for text in tokenizer.encode_batch(learned)])
    parameters = sum(array.size for array in base.values())
    return [
        {"base": name, "parameters": parameters}
        | _adapted(llama(base, store), tokenizer.to_str().encode(), learned, float(tokens))
        for name, store in STORED.items()
    ]


def _trained(texts: list[str], tokenizer: bytes) -> Matrices:
    """The matrices once the texts have been learned."""
    drawn = _drawn()
    with served(training_threads=THREADS, training_nice=0) as daemon:
        _register(daemon, llama(drawn, in_float32), tokenizer, texts)
        job = train(daemon, "m", **BASE, seed=1)
        path = f"/v1/models/m/versions/{job['version']}/model.onnx"
        model = onnx.load_from_string(daemon.http.get(path).content)
    held = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    return {name: held[name] for name in drawn}


def _adapted(model: bytes, tokenizer: bytes, texts: list[str], tokens: float) -> Row:
    """tokens: of a text, in the mean."""
    lora = {"lora": {"rank": RANK, "alpha": 2 * RANK, "targets": ["layer.*"]}}
    with served(training_threads=THREADS, training_nice=0) as daemon:
        _register(daemon, model, tokenizer, texts, trainable=[lora])
        with watched.watching(lambda: watched.children(daemon.process.pid)) as peak:
            job = train(daemon, "m", **ADAPTERS, seed=1)
        version = daemon.http.get(f"/v1/models/m/versions/{job['version']}").json()
    before, after = job["metrics"]["baseline"], job["metrics"]["validation"]
    return {
        "base MB": len(model) / 2**20,
        "version stored MB": version["stored_bytes"] / 2**20,
        "own MB": peak.own,
        "resident MB": peak.resident,
        "tokens/s": job["progress"]["samples_per_second"] * tokens,
        "perplexity before": before["perplexity"],
        "perplexity after": after["perplexity"],
    }


def _register(
    daemon: Served, model: bytes, tokenizer: bytes, texts: list[str], **more: object
) -> None:
    spec = {"name": "m", "loss": "causal_lm", "gate": {"mode": "always"}, **more}
    spec["preprocess"] = {"kind": "text", "max_tokens": LONGEST}
    files = {"model": ("m.onnx", model), "tokenizer": ("tokenizer.json", tokenizer)}
    daemon.http.post("/v1/models", data={"spec": json.dumps(spec)}, files=files)
    lines = "\n".join(json.dumps({"text": text}) for text in texts)
    headers = {"Content-Type": "application/jsonl"}
    daemon.http.post("/v1/models/m/samples", content=lines, headers=headers)


def _drawn() -> Matrices:
    """Random matrices of variance 1/inputs, by name; norms begin at 1."""
    rng, size = np.random.default_rng(0), WIDTH // HEADS
    shapes = {"embedding": (VOCABULARY, WIDTH), "head": (WIDTH, VOCABULARY)}
    for layer in range(LAYERS):
        of_layer = {"q": (WIDTH, WIDTH), "o": (WIDTH, WIDTH), "down": (INNER, WIDTH)}
        of_layer |= dict.fromkeys("kv", (WIDTH, GROUPS * size))
        of_layer |= dict.fromkeys(("gate", "up"), (WIDTH, INNER))
        shapes |= {f"layer.{layer}.{name}": shape for name, shape in of_layer.items()}
    drawn = {n: rng.standard_normal(shape) / shape[0] ** 0.5 for n, shape in shapes.items()}
    drawn["embedding"] = rng.standard_normal(shapes["embedding"]) * 0.02
    norms = [f"layer.{layer}.norm{n}" for layer in range(LAYERS) for n in (1, 2)]
    drawn |= {name: np.ones(WIDTH) for name in (*norms, "norm")}
    return {name: array.astype(np.float32) for name, array in drawn.items()}


def llama(weights: Matrices, store: Store) -> bytes:
    """input_ids, attention_mask (batch, tokens) → logits. store: how layers hold their matrices."""
    return _Llama(weights, store).written()


class _Llama(Graph):
    """The nodes of the decoder."""

    def __init__(self, weights: Matrices, store: Store) -> None:
        super().__init__(0)
        self._known, self._store = weights, store

    def written(self) -> bytes:
        x = self.add("Gather", self._weight("embedding"), "input_ids")
        length = self.add("Gather", self.add("Shape", "input_ids"), self._number(1))
        there = self.add("Range", self._number(0), length, self._number(1))
        ends = (
            self.add("Unsqueeze", there, self.ints(0)),
            self.add("Unsqueeze", there, self.ints(1)),
        )
        absent = self.add("Equal", "attention_mask", self._number(0))
        absent = self.add("Unsqueeze", absent, self.ints(1, 2))
        hidden = self.add("Or", absent, self.add("Greater", *ends))
        turns = [self.add("Gather", angle, there) for angle in self._angles()]
        for layer in range(LAYERS):
            x = self._layer(f"layer.{layer}", x, hidden, turns)
        self.add("MatMul", self._norm(x, "norm"), self._weight("head"), name="logits")
        return as_model(self, ["batch", "tokens", VOCABULARY], "tokens", ("attention_mask",))

    def _layer(self, name: str, x: str, hidden: str, turns: list[str]) -> str:
        y, size = self._norm(x, f"{name}.norm1"), WIDTH // HEADS
        query = self._turned(self._split(self._times(y, f"{name}.q"), HEADS), turns)
        key = self._turned(self._split(self._times(y, f"{name}.k"), GROUPS), turns)
        value = self._split(self._times(y, f"{name}.v"), GROUPS)
        key, value = self._shared(key), self._shared(value)
        scores = self.add("MatMul", query, self.add("Transpose", key, perm=[0, 1, 3, 2]))
        scores = self.add("Mul", scores, self._float(size**-0.5))
        share = self.add("Softmax", self.add("Where", hidden, self._float(-1e4), scores), axis=-1)
        joined = self.add("Transpose", self.add("MatMul", share, value), perm=[0, 2, 1, 3])
        joined = self.add("Reshape", joined, self.ints(0, 0, WIDTH))
        x = self.add("Add", x, self._times(joined, f"{name}.o"))
        z = self._norm(x, f"{name}.norm2")
        gate = self._times(z, f"{name}.gate")
        gate = self.add("Mul", gate, self.add("Sigmoid", gate))
        inner = self.add("Mul", gate, self._times(z, f"{name}.up"))
        return self.add("Add", x, self._times(inner, f"{name}.down"))

    def _times(self, x: str, name: str) -> str:
        nodes, held, _ = self._store(name, self._known[name], x, f"{name}:y")
        self.nodes += nodes
        for tensor, value in held.items():
            self.put(tensor, value)
        return f"{name}:y"

    def _norm(self, x: str, name: str) -> str:
        mean = self.add("ReduceMean", self.add("Mul", x, x), axes=[-1], keepdims=1)
        root = self.add("Sqrt", self.add("Add", mean, self._float(1e-5)))
        return self.add("Mul", self.add("Div", x, root), self._weight(name))

    def _split(self, x: str, heads: int) -> str:
        split = self.add("Reshape", x, self.ints(0, 0, heads, WIDTH // HEADS))
        return self.add("Transpose", split, perm=[0, 2, 1, 3])

    def _angles(self) -> list[str]:
        """Cosine and sine of each position's rotation, (positions, half of a head)."""
        half = WIDTH // HEADS // 2
        angles = np.outer(np.arange(LONGEST), 1e4 ** (-np.arange(half) / half))
        pairs = (("cosine", np.cos(angles)), ("sine", np.sin(angles)))
        return [self.put(name, array.astype(np.float32)) for name, array in pairs]

    def _turned(self, x: str, turns: list[str]) -> str:
        half, (cosine, sine) = WIDTH // HEADS // 2, turns
        ends = ((0, half), (half, 2 * half))
        a, b = (
            self.add("Slice", x, self.ints(low), self.ints(high), self.ints(3))
            for low, high in ends
        )
        first = self.add("Sub", self.add("Mul", a, cosine), self.add("Mul", b, sine))
        second = self.add("Add", self.add("Mul", b, cosine), self.add("Mul", a, sine))
        return self.add("Concat", first, second, axis=-1)

    def _shared(self, x: str) -> str:
        """(batch, groups, tokens, size) → heads: those of a group share keys and values."""
        column = self.add("Unsqueeze", x, self.ints(2))
        repeated = self.add("Concat", *[column] * (HEADS // GROUPS), axis=2)
        return self.add("Reshape", repeated, self.ints(0, HEADS, -1, WIDTH // HEADS))

    def _weight(self, name: str) -> str:
        return self.put(name, self._known[name])

    def _number(self, value: int) -> str:
        return self.put(f"number_{len(self.weights)}", np.array(value))

    def _float(self, value: float) -> str:
        return self.put(f"float_{len(self.weights)}", np.array(value, np.float32))
