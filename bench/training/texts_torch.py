"""PyTorch's side of `bench texts`, run by the interpreter of an environment that has torch.

python texts_torch.py export NAME MODEL.onnx writes the model that both sides train.
python texts_torch.py train NAME DATA.npz EPOCHS BATCH_SIZE THREADS ORDER trains it with batches
padded to their longest text, and prints one JSON object. ORDER: shuffled, or by_length in pools.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

LEARNING_RATE = 1e-3
VOCABULARY, WIDTH, HEADS, LAYERS, LONGEST, CLASSES = 4096, 256, 4, 4, 128, 4
POOL_BATCHES, WARM_STEPS = 64, 3


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key, self.value = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.out = nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
        y = self.norm(x)
        parts = (
            linear(y).unflatten(2, (HEADS, WIDTH // HEADS)).transpose(1, 2)
            for linear in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(*parts, attn_mask=seen)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Net(nn.Module):
    """decodes: predicts each next token; else it tells the class of a text."""

    def __init__(self, *, decodes: bool) -> None:
        super().__init__()
        self.decodes = decodes
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY if decodes else CLASSES)

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        places = torch.arange(input_ids.shape[1], device=input_ids.device)
        x = self.tokens(input_ids) + self.places(places)
        seen = (attention_mask > 0)[:, None, None, :]
        if self.decodes:
            seen = seen & (places[None, :] <= places[:, None])
        for layer in self.layers:
            x = layer(x, seen)
        x = self.norm(x)
        if not self.decodes:
            there = attention_mask[:, :, None].to(x.dtype)
            x = (x * there).sum(1) / there.sum(1)
        return self.head(x)


def build(name: str) -> Net:
    """The model, the same at every call."""
    torch.manual_seed(0)
    return Net(decodes=name == "decoder")


def export(name: str, path: str) -> None:
    ids = torch.ones(2, 16, dtype=torch.int64)
    axes = {0: "batch", 1: "tokens"}
    torch.onnx.export(
        build(name),
        (ids, ids),
        path,
        input_names=["input_ids", "attention_mask"],
        output_names=["logits"],
        dynamic_axes={"input_ids": axes, "attention_mask": axes, "logits": {0: "batch"}},
        dynamo=False,
    )


def train(name: str, data: Path, *, epochs: int, batch_size: int, order: str) -> None:
    with np.load(data) as arrays:
        ids, ends, labels = (arrays[name] for name in ("ids", "ends", "labels"))
    texts = np.split(ids, ends[:-1])
    net, generator = build(name), np.random.default_rng(0)
    optimizer = torch.optim.AdamW(net.parameters(), LEARNING_RATE, weight_decay=0.0, fused=True)

    def epoch(most: int | None = None) -> None:
        for chosen in batches(texts, batch_size, order, generator)[:most]:
            step(net, optimizer, [texts[index] for index in chosen], labels[chosen])

    epoch(WARM_STEPS)
    began = time.perf_counter()
    for _ in range(epochs):
        epoch()
    pace = epochs * len(texts) / (time.perf_counter() - began)
    print(json.dumps({"samples_per_second": pace}))


def batches(
    texts: list[np.ndarray], size: int, order: str, generator: np.random.Generator
) -> list[np.ndarray]:
    shuffled = generator.permutation(len(texts))
    if order == "by_length":
        lengths = np.array([len(text) for text in texts])
        pools = np.array_split(shuffled, max(1, len(texts) // (size * POOL_BATCHES)))
        shuffled = np.concatenate([pool[np.argsort(lengths[pool])] for pool in pools])
    made = [shuffled[at : at + size] for at in range(0, len(shuffled), size)]
    return [made[index] for index in generator.permutation(len(made))]


def step(
    net: Net, optimizer: torch.optim.Optimizer, texts: list[np.ndarray], labels: np.ndarray
) -> None:
    lengths = torch.tensor([len(text) for text in texts])
    rows = nn.utils.rnn.pad_sequence([torch.tensor(text) for text in texts], batch_first=True)
    mask = (torch.arange(rows.shape[1]) < lengths[:, None]).long()
    logits = net(rows, mask)
    if net.decodes:
        target = torch.where(mask[:, 1:] > 0, rows[:, 1:], -100)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), target.flatten())
    else:
        loss = F.cross_entropy(logits, torch.tensor(labels))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def main() -> None:
    what, name, path, *rest = sys.argv[1:]
    if what == "export":
        export(name, path)
        return
    epochs, batch_size, threads = map(int, rest[:3])
    torch.set_num_threads(threads)
    train(name, Path(path), epochs=epochs, batch_size=batch_size, order=rest[3])


if __name__ == "__main__":
    main()
