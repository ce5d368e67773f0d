"""PyTorch's side of lora.py, run by the interpreter of an environment that has torch.

python lora_torch.py export MODEL.onnx writes the transformer, and prints its parameters.
python lora_torch.py full|lora STEPS THREADS trains it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional

VOCABULARY, WIDTH, HEADS, LAYERS, CLASSES = 1000, 512, 8, 8, 10
TOKENS, BATCH = 64, 8
RANK, ALPHA = 8, 16
LEARNING_RATE = 1e-3


class Attention(nn.Module):
    """Self-attention with one matrix each for queries, keys, values and the result."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = (-1, TOKENS, HEADS, WIDTH // HEADS)
        q, k, v = (linear(x).reshape(shape).transpose(1, 2) for linear in (self.q, self.k, self.v))
        weights = functional.softmax(q @ k.transpose(-1, -2) / (WIDTH // HEADS) ** 0.5, dim=-1)
        return self.o((weights @ v).transpose(1, 2).reshape(-1, TOKENS, WIDTH))


class Block(nn.Module):
    """Pre-norm, with four times the width inside."""

    def __init__(self) -> None:
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attn = Attention()
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attn(self.norm1(x))
        return x + self.down(functional.gelu(self.up(self.norm2(x))))


class Transformer(nn.Module):
    """A classifier of token sequences with 25 million parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.embedding(tokens)).mean(1))


class Lora(nn.Module):
    """A frozen layer and the product of two small matrices (Hu et al. 2021)."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base
        self.a = nn.Linear(base.in_features, RANK, bias=False)
        self.b = nn.Linear(RANK, base.out_features, bias=False)
        nn.init.zeros_(self.b.weight)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + self.b(self.a(x)) * (ALPHA / RANK)


def with_lora(model: Transformer) -> Transformer:
    """Add adapters to the four matrices of each attention; nothing else trains."""
    for parameter in model.parameters():
        parameter.requires_grad = False
    for block in model.blocks:
        for name in ("q", "k", "v", "o"):
            setattr(block.attn, name, Lora(getattr(block.attn, name)))
    return model


def export(path: Path) -> dict[str, Any]:
    model = Transformer().eval()
    tokens = torch.zeros((2, TOKENS), dtype=torch.long)
    torch.onnx.export(
        model,
        (tokens,),
        path,
        input_names=["tokens"],
        output_names=["logits"],
        dynamic_axes={"tokens": {0: "batch"}, "logits": {0: "batch"}},
        opset_version=17,
        dynamo=False,
    )
    return {"parameters": sum(parameter.numel() for parameter in model.parameters())}


def train(how: str, steps: int, threads: int) -> None:
    torch.set_num_threads(threads)
    model = with_lora(Transformer()) if how == "lora" else Transformer()
    moved = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(moved, lr=LEARNING_RATE, weight_decay=0.0)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        tokens = torch.randint(0, VOCABULARY, (BATCH, TOKENS), generator=generator)
        labels = torch.randint(0, CLASSES, (BATCH,), generator=generator)
        loss = functional.cross_entropy(model(tokens), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    what, *rest = sys.argv[1:]
    done = export(Path(rest[0])) if what == "export" else train(what, *map(int, rest))
    print(json.dumps(done))
