"""The likeliest next words of a text, whole ones, by a beam search over pieces."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np
from msgspec import Struct

from service.completion.decoder import Decoder
from service.completion.generation import shares_of
from service.completion.messages import Suggestion
from service.completion.vocabulary import IN_WORD, Vocabulary
from service.prediction.frames import Array

END = re.compile(rf"( *)({IN_WORD}*)\Z")
MARKS = "'\u2019-"
"""What stands inside of words, but not at their end."""
MAX_PIECES = 16
"""Of a word; those that are longer are not found."""
LEAST_SHARE = 1e-3
"""Of the likeliest word that is begun; what is less likely is not searched."""
LEAST_PROBABILITY = 1e-7
"""Of a suggestion."""


class _Begun(Struct, frozen=True):
    """The beginning of a word. rest: how it must go on. row: of the reading that it is of."""

    row: int
    word: str
    rest: str
    share: float
    token: int = 0


def suggest(decoder: Decoder, vocabulary: Vocabulary, text: str, *, count: int) -> list[Suggestion]:
    """The likeliest next words, and completions of the word that the text ends with."""
    match = END.search(text)
    assert match is not None
    spaces, begun = match.groups()
    whole = vocabulary.encode(text.rstrip(" "))
    suggestions: list[Suggestion] = []
    share = 1.0
    if begun:
        head = text[: match.start()]
        search = _Search(decoder, vocabulary, count=count + 1)
        search.run(vocabulary.tokens(head), [f" {begun}"] if spaces else _rests(head, begun))
        share = search.share_of(begun)
        suggestions += [
            Suggestion(word, share / search.total, len(begun))
            for word, share in search.words.items()
            if word != begun
        ]
    if share > LEAST_PROBABILITY:
        following = _Search(decoder, vocabulary, count=count)
        following.run(whole, [" "] if spaces or begun else ["", " "])
        suggestions += [Suggestion(word, share * each, 0) for word, each in following.words.items()]
    likely = [word for word in suggestions if word.probability > LEAST_PROBABILITY]
    return sorted(likely, key=lambda suggestion: (-suggestion.probability, suggestion.text))[:count]


def _rests(head: str, word: str) -> list[str]:
    """How a word goes on that no space precedes: some tokenizers put one before the first."""
    return [word] if head and not head[-1].isspace() else [f" {word}", word]


class _Search:
    """One search. words: those found, by share. total: of all that goes on as it must."""

    def __init__(self, decoder: Decoder, vocabulary: Vocabulary, *, count: int) -> None:
        self._decoder = decoder
        self._vocabulary = vocabulary
        self._count = count
        self._width = 2 * count + 2
        self.words: dict[str, float] = defaultdict(float)
        self.total = 0.0

    def share_of(self, word: str) -> float:
        """The share of those that end after this word; all of them if none is known."""
        return self.words.get(word, 0.0) / self.total if self.total else 1.0

    def run(self, tokens: Sequence[int], rests: Sequence[str]) -> None:
        """Find the likeliest words behind a text. rests: how these begin, each with its space."""
        if not tokens:
            return
        room = min(MAX_PIECES, self._decoder.window // 2)
        reading = self._decoder.read(tokens, room=room)
        self._decoder.keep(reading)
        begun = [_Begun(0, "", rest, 1.0) for rest in rests]
        for pieces in range(room + 1):
            shares = shares_of(reading.logits)
            for word in begun:
                self._count_word(word, shares[word.row])
            least = self._least()
            begun = [e for one in begun for e in self._longer(one, shares[one.row], least)]
            begun = self._likeliest(begun)
            if not begun or pieces == room:
                return
            rows, chosen = [word.row for word in begun], [word.token for word in begun]
            reading = self._decoder.read_on(reading, rows, chosen)
            begun = [_Begun(row, e.word, e.rest, e.share) for row, e in enumerate(begun)]

    def _count_word(self, begun: _Begun, shares: Array) -> None:
        """What is begun as a word, if it may end here."""
        word = begun.word.rstrip(MARKS)
        if word and not begun.rest:
            ends = 1 - float(shares[self._vocabulary.continues].sum())
            self.words[word] += begun.share * max(ends, 0.0)

    def _longer(self, begun: _Begun, shares: Array, least: float) -> Iterator[_Begun]:
        """With each likely piece more. least: of the share."""
        vocabulary, rest = self._vocabulary, begun.rest
        pieces = vocabulary.beginning(rest)
        of_pieces = shares[pieces]
        if rest:
            self.total += begun.share * float(of_pieces.sum())
        if len(pieces) > self._width:
            pieces = pieces[np.argpartition(of_pieces, -self._width)[-self._width :]]
        for token in (*pieces.tolist(), *vocabulary.inside(rest)):
            share = begun.share * float(shares[token])
            if share > least:
                text = vocabulary.texts[token]
                word = (begun.word + text).lstrip()
                yield _Begun(begun.row, word, rest[len(text) :], share, token)

    def _least(self) -> float:
        """What a word must exceed to be among those that are wanted."""
        if len(self.words) < self._count:
            return 0.0
        return sorted(self.words.values(), reverse=True)[self._count - 1]

    def _likeliest(self, begun: list[_Begun]) -> list[_Begun]:
        begun.sort(key=lambda branch: (-branch.share, branch.token))
        least = LEAST_SHARE * begun[0].share if begun else 0.0
        return [word for word in begun[: self._width] if word.share > least]
