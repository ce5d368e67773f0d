"""Generates text token by token, some at each question, so that other questions get their turn."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from service.completion.decoder import Decoder
from service.completion.messages import FinishReason, Generate, Generated, Sampling
from service.completion.vocabulary import UNFINISHED, Vocabulary
from service.prediction.frames import Array
from storage.arrays import NDArray

TURN_S = 0.05
"""How long a question is worked on; a token that is begun is finished."""
MASK = 2**64 - 1
LEAST_TEMPERATURE = 1e-3
"""Below it numbers grow too large, and another token than the likeliest is hardly drawn."""


def generate(decoder: Decoder, vocabulary: Vocabulary, text: str, asked: Generate) -> Generated:
    """Go on for a turn. Raises PredictionFailed."""
    ends_at = time.monotonic() + TURN_S
    prompt = vocabulary.encode(text)
    tokens = list(asked.tokens)
    reading = decoder.read([*prompt, *tokens], room=asked.max_tokens - len(tokens))
    added = vocabulary.added_text(prompt, tokens)
    reason: FinishReason | None = None
    while True:
        logits = np.where(vocabulary.may_follow, reading.logits[0], -np.inf)
        token = draw(logits, asked.sampling, place=len(tokens))
        if vocabulary.ends(token):
            reason = "stop"
            break
        tokens.append(token)
        added.add(token)
        if asked.stop and _cut(added.text, asked.stop) is not None:
            reason = "stop"
        elif len(tokens) >= asked.max_tokens:
            reason = "length"
        if reason is not None or time.monotonic() >= ends_at:
            break
        reading = decoder.read_on(reading, [0], [token])
    decoder.keep(reading)
    continuation = added.text
    end = _certain(continuation, asked.stop) if reason is None else _cut(continuation, asked.stop)
    return Generated(tuple(tokens), continuation[:end], len(prompt), reason)


def _cut(text: str, stop: Sequence[str]) -> int | None:
    """Where the first stop is, None if there is none."""
    return min((at for ending in stop if (at := text.find(ending)) >= 0), default=None)


def _certain(text: str, stop: Sequence[str]) -> int:
    """How much of a text is not part of a stop or of a character, whatever follows."""
    end = len(text.rstrip(UNFINISHED))
    begun = [
        length
        for ending in stop
        for length in range(1, min(len(ending), end + 1))
        if text[:end].endswith(ending[:length])
    ]
    return end - max(begun, default=0)


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
