"""The UCI handwritten digits, and who sees which of them."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

HERE = Path(__file__).parent
PRETRAINING, DEVICE = 400, 1000
"""Digits that pretrain.py sees, and that the device collects; the other 397 are kept back."""


@dataclass(frozen=True)
class Digits:
    """images: (n, 1, 8, 8) float32 in [0, 1], ink is 1. labels: (n,) int64, 0 to 9."""

    images: NDArray[np.float32]
    labels: NDArray[np.int64]


def load() -> Digits:
    """All 1,797 digits, in the file's order."""
    with gzip.open(HERE / "digits.csv.gz", "rt", encoding="ascii") as file:
        rows = np.loadtxt(file, delimiter=",", dtype=np.int64)
    images = (rows[:, :64] / 16).astype(np.float32).reshape(-1, 1, 8, 8)
    return Digits(images, rows[:, 64])


def split() -> tuple[Digits, Digits, Digits]:
    """Disjoint digits: for pre-training, for the device, kept back for the verdict.

    Shuffled once with a fixed seed, so that each part holds every writer: the people who use a
    device are those who teach it.
    """
    digits = load()
    order = np.random.default_rng(0).permutation(len(digits.labels))
    bounds = [PRETRAINING, PRETRAINING + DEVICE]
    pretraining, device, kept_back = (
        Digits(digits.images[rows], digits.labels[rows]) for rows in np.split(order, bounds)
    )
    return pretraining, device, kept_back
