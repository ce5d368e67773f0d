"""What the zoo must know of a network to export it and to train it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

CLASSES = 10
VOCABULARY = 50

Draw = Callable[[int], Tensor]
"""Rows → one input of so many rows, from the global generator."""


@dataclass(frozen=True, slots=True)
class Architecture:
    """A network with random weights, and what it reads.

    inputs: by the name that its export has, in the order of `forward`. loss: as Hone names it.
    head: prefix of the parameters of its last layer; empty if it has no such layer.
    """

    build: Callable[[], nn.Module]
    inputs: dict[str, Draw]
    loss: str = "cross_entropy"
    head: str = ""


def floats(*shape: int) -> Draw:
    """Normal numbers of this shape a row."""
    return lambda rows: torch.randn(rows, *shape)


def integers(limit: int, *shape: int) -> Draw:
    """Integers below the limit, such as tokens."""
    return lambda rows: torch.randint(0, limit, (rows, *shape))


def image(size: int = 32, channels: int = 3) -> dict[str, Draw]:
    """A square image."""
    return {"image": floats(channels, size, size)}


def tokens(length: int = 12, limit: int = VOCABULARY) -> dict[str, Draw]:
    """Token ids."""
    return {"input_ids": integers(limit, length)}


def padding(length: int, *, left: bool = False) -> Draw:
    """An attention mask: ones, then zeros from a place of its own in each row; or zeros first."""

    def draw(rows: int) -> Tensor:
        ends = torch.randint(length // 2, length + 1, (rows, 1))
        mask = (torch.arange(length) < ends).long()
        return mask.flip(1) if left else mask

    return draw
