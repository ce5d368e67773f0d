"""Words of a text, and the tokens that begin them.

A word is a run of letters and digits, a single ideograph or kana, or any other character that is no
space: about what BERT's tokenizer splits texts into before it looks for pieces.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ALONE = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
WORD = re.compile(rf"[^\W{_ALONE}]+|\S")


def token_words(text: str, offsets: Sequence[tuple[int, int]]) -> NDArray[np.int64]:
    """(2, tokens): where the word begins and ends that a token is the first of, else 0 and 0.

    offsets: of the tokens, in characters (code points); empty for one that nobody wrote. A token of
    several words is the first of all that no token before is part of.
    """
    found = np.zeros((2, len(offsets)), np.int64)
    spans = [match.span() for match in WORD.finditer(text)]
    if not spans or not len(offsets):
        return found
    starts, ends = np.array(spans).T
    begin, end = np.array(offsets, np.int64).T
    first, last = np.searchsorted(ends, begin, "right"), np.searchsorted(starts, end) - 1
    is_written = (begin < end) & (first <= last)
    # Of all tokens before, the highest word that any is part of.
    seen = np.maximum.accumulate(np.where(is_written, last, -1))
    before = np.concatenate([[-1], seen[:-1]])
    first = np.maximum(first, before + 1)
    begins = np.flatnonzero(is_written & (first <= last))
    found[:, begins] = starts[first[begins]], ends[last[begins]]
    return found
