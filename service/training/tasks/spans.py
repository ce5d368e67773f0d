"""Spans as classes of words, and classes of words as spans.

If all classes but O are called B-TYPE or I-TYPE, as those of Hugging Face's models are, B-TYPE
begins a span and I-TYPE goes on. Otherwise each class but O is a type, and neighbouring words of
one type are one span.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from msgspec import Struct

from storage.arrays import NDArray

OUTSIDE = "O"
BEGIN, INSIDE = "B-", "I-"


class Span(Struct, frozen=True):
    """A part of a text: characters (code points) from start to before end, and its type."""

    start: int
    end: int
    label: str


class WordSpan(NamedTuple):
    """A span of words: from the first to before the end, and its type's index."""

    first: int
    end: int
    type: int


class Scheme(Struct, frozen=True):
    """types: of spans, by first appearance. type_of: of each class its type, -1 for O. begins:
    whether a class begins a span. opens, continues: of each type the class of its first word, and
    that of others.
    """

    outside: int
    types: tuple[str, ...]
    type_of: tuple[int, ...]
    begins: tuple[bool, ...]
    opens: tuple[int, ...]
    continues: tuple[int, ...]


@lru_cache
def scheme_of(classes: tuple[str, ...]) -> Scheme:
    """classes: one of them is O, and another is not."""
    others = [name for name in classes if name != OUTSIDE]
    is_bio = all(name[:2] in (BEGIN, INSIDE) and len(name) > 2 for name in others)
    named = [name[2:] if is_bio and name != OUTSIDE else name for name in classes]
    types = tuple(dict.fromkeys(name for name in named if name != OUTSIDE))
    at = {name: index for index, name in enumerate(classes)}

    def class_of(kind: str, first: str, second: str) -> int:
        return at[f"{first}{kind}"] if f"{first}{kind}" in at else at[f"{second}{kind}"]

    prefixes = (BEGIN, INSIDE) if is_bio else ("", "")
    return Scheme(
        outside=at[OUTSIDE],
        types=types,
        type_of=tuple(-1 if name == OUTSIDE else types.index(name) for name in named),
        begins=tuple(is_bio and name.startswith(BEGIN) for name in classes),
        opens=tuple(class_of(name, *prefixes) for name in types),
        continues=tuple(class_of(name, *prefixes[::-1]) for name in types),
    )


def spans_of(classes: NDArray[np.int64], scheme: Scheme) -> list[WordSpan]:
    """The spans that classes of words say. classes: (words,).

    A span ends before a word that begins one, or is of another type or outside; I-TYPE without a
    word of TYPE before begins one. Source: conlleval of CoNLL-2000, and seqeval by default.
    """
    if not len(classes):
        return []
    types = np.array(scheme.type_of)[classes]
    changes = np.concatenate([[True], types[1:] != types[:-1]])
    starts = np.flatnonzero(changes | np.array(scheme.begins)[classes])
    ends = [*starts[1:].tolist(), len(classes)]
    spans = zip(starts.tolist(), ends, types[starts].tolist(), strict=True)
    return [WordSpan(*span) for span in spans if span[2] >= 0]


def word_classes(
    spans: Sequence[Span], begins: Sequence[int], ends: Sequence[int], scheme: Scheme
) -> list[int]:
    """Of each word the class that these spans say. A word is of the first span that it overlaps.

    spans: in order. begins, ends: where each word is, in characters, rising.
    """
    classes, done = [scheme.outside] * len(begins), 0
    for span in spans:
        kind = scheme.types.index(span.label)
        first = max(done, bisect_right(ends, span.start))
        done = max(first, bisect_left(begins, span.end))
        for word in range(first, done):
            classes[word] = (scheme.continues if word > first else scheme.opens)[kind]
    return classes
