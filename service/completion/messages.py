"""What the daemon asks the predictor to complete, and what that answers.

A question's text is its tensor `TEXT`, so that its length counts as the size of any question.
"""

from __future__ import annotations

import re
from typing import Literal

from msgspec import Struct

PAST = re.compile(r"past_key_values\.(\d+\.(?:key|value))")
"""Inputs of cached keys and values, as Optimum names them; the outputs are `present.N.key` …"""
AXIS, RANK = 2, 4
"""Of the positions, among (batch, heads, positions, size)."""
COMPLETE, TEXT, NO_CACHE = "complete", "text", "no_cache"
"""Fields of headers, and a tensor's name. NO_CACHE: why a cache is not used, told once."""
FinishReason = Literal["stop", "length"]


class Completing(Struct, frozen=True):
    """How a model reads text. tokenizer: path of its file. ids: the input that takes the tokens.

    feeds: role of another input → its name. max_tokens: of a text. special_tokens: whether the
    tokenizer adds those with which texts begin. output: of the logits. cached: path of the uploaded
    graph, if it may have cached keys and values, which versions have not.
    """

    tokenizer: str
    ids: str
    feeds: dict[str, str]
    max_tokens: int
    special_tokens: bool
    output: str
    cached: str | None = None


class Suggest(Struct, frozen=True, tag="suggest"):
    """Asks for the likeliest next words."""

    count: int


class Sampling(Struct, frozen=True):
    """How tokens are drawn. temperature: 0 takes the likeliest one. top_k: of the likeliest tokens
    only these many. top_p: only the likeliest that have this share together.
    """

    temperature: float = 1.0
    top_k: int | None = None
    top_p: float = 1.0
    seed: int = 0


class Generate(Struct, frozen=True, tag="generate"):
    """Asks to generate text for a while. max_tokens: in all. stop: texts that end it, and are not
    part of it. tokens: those that were generated before.
    """

    max_tokens: int
    sampling: Sampling = Sampling()
    stop: tuple[str, ...] = ()
    tokens: tuple[int, ...] = ()


class Question(Struct, frozen=True):
    """What is asked of a model, in the header's field COMPLETE."""

    form: Completing
    asked: Suggest | Generate


class Suggestion(Struct, frozen=True):
    """A word that may come next. replaces: how many characters at the text's end it completes."""

    text: str
    probability: float
    replaces: int


class Generated(Struct, frozen=True):
    """What has been generated. tokens: all of them. text: theirs, as far as it is certain.

    prompt_tokens: of the text before. finish_reason: None if it goes on.
    """

    tokens: tuple[int, ...]
    text: str
    prompt_tokens: int
    finish_reason: FinishReason | None = None
