"""Words of a text, and the tokens that begin them.

A word is a run of letters and digits, a single ideograph or kana, or any other character that is no
space, with the marks that combine with them: about what BERT's tokenizer splits texts into before
it looks for pieces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from unicodedata import category

import numpy as np

from storage.arrays import NDArray

ALONE = ((0x3040, 0x30FF), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF))
"""Kana and ideographs."""
JOINERS = "\u200c\u200d"
CODES = 0x10000
"""Letters beyond are words of their own: sets of them are searched one by one."""


@cache
def word_pattern() -> re.Pattern[str]:
    """One word. Python's \\w lacks the marks that Hindi or Thai words are written with."""
    codes = range(CODES)
    marks = {code for code in codes if category(chr(code))[0] == "M"} | {*map(ord, JOINERS)}
    letters = {code for code in codes if chr(code).isalnum()} | {ord("_")}
    letters -= {code for first, last in ALONE for code in range(first, last + 1)}
    inside = _in_brackets(letters | marks)
    # In one set each: alternatives inside a repetition take four times as long.
    return re.compile(f"{_in_brackets(letters)}{inside}*|\\S{_in_brackets(marks)}*")


def _in_brackets(codes: set[int]) -> str:
    """A regular expression of one of these characters, by ranges, which are read faster."""
    firsts = sorted(code for code in codes if code - 1 not in codes)
    lasts = sorted(code for code in codes if code + 1 not in codes)
    return "[" + "".join(f"{chr(a)}-{chr(b)}" for a, b in zip(firsts, lasts, strict=True)) + "]"


def token_words(text: str, offsets: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """(2, tokens): where the word begins and ends that a token is the first of, else 0 and 0.

    offsets: of the tokens, in characters (code points); empty for one that nobody wrote. A token of
    several words is the first of all that no token before is part of.
    """
    words = np.zeros((2, len(offsets)), np.int64)
    spans = [match.span() for match in word_pattern().finditer(text)]
    if not spans or not len(offsets):
        return words
    starts, ends = np.array(spans).T
    begin, end = np.array(offsets, np.int64).T
    first, last = np.searchsorted(ends, begin, "right"), np.searchsorted(starts, end) - 1
    is_written = (begin < end) & (first <= last)
    # Of all tokens before, the highest word that any is part of.
    seen = np.maximum.accumulate(np.where(is_written, last, -1))
    before = np.concatenate([[-1], seen[:-1]])
    first = np.maximum(first, before + 1)
    begins = np.flatnonzero(is_written & (first <= last))
    words[:, begins] = starts[first[begins]], ends[last[begins]]
    return words
