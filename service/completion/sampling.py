"""The next token: the likeliest, or one drawn by temperature, top-k and top-p."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from service.completion.messages import Sampling
from service.prediction.frames import Array

if TYPE_CHECKING:
    from numpy.typing import NDArray


MASK = 2**64 - 1
LEAST_TEMPERATURE = 1e-3
"""Below it numbers grow too large, and another token than the likeliest is hardly drawn."""


def shares_of(logits: Array, temperature: float = 1.0) -> NDArray[np.float64]:
    """The probability of each token. logits: (texts, tokens)."""
    scaled = logits.astype(np.float64) / temperature
    powers = np.exp(scaled - scaled.max(axis=-1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=-1, keepdims=True))


def draw(logits: Array, sampling: Sampling, *, place: int) -> int:
    """A token. logits: (tokens,). place: how many were drawn before, which the draw depends on.

    So a text is the same by the same seed, in however many questions it is asked for.
    """
    if sampling.temperature < LEAST_TEMPERATURE:
        return int(logits.argmax())
    kept = np.arange(len(logits))
    if sampling.top_k is not None and sampling.top_k < len(logits):
        kept = np.argpartition(logits, -sampling.top_k)[-sampling.top_k :]
    shares = shares_of(logits[kept], sampling.temperature)
    if sampling.top_p < 1:
        order = np.argsort(-shares, kind="stable")
        before = np.cumsum(shares[order]) - shares[order]
        order = order[before < sampling.top_p]
        kept, shares = kept[order], shares[order]
    bounds = np.cumsum(shares)
    drawn = _uniform(sampling.seed, place) * bounds[-1]
    return int(kept[min(np.searchsorted(bounds, drawn, side="right"), len(kept) - 1)])


def _uniform(seed: int, place: int) -> float:
    """From [0, 1): SplitMix64, whose numbers need not be drawn in turn.

    Steele, Lea, Flood (2014), Fast Splittable Pseudorandom Number Generators.
    """
    mixed = (seed + (place + 1) * 0x9E3779B97F4A7C15) & MASK
    mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & MASK
    return ((mixed ^ (mixed >> 31)) >> 11) * 2.0**-53
