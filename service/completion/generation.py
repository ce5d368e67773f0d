"""Generates text token by token, some at each question, so that other questions get their turn."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from service.completion.decoder import Decoder
from service.completion.messages import FinishReason, Generate, Generated
from service.completion.sampling import draw
from service.completion.vocabulary import UNFINISHED, Vocabulary

TURN_S = 0.05
"""How long a question is worked on; a token that is begun is finished."""


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
