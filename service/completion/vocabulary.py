"""A tokenizer's pieces as text: what each adds behind a word, and which continue one."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from service.completion.messages import Completing
from service.errors import ModelNotLoadable, PredictionFailed
from storage.arrays import NDArray
from storage.database.codec import load

if TYPE_CHECKING:
    from tokenizers import Tokenizer

ANCHOR = "a"
"""A word that pieces are decoded behind: decoders treat the first piece of a text differently."""
IN_WORD = r"[\w'\u2019-]"
CONTINUES = re.compile(IN_WORD)
WORDLIKE = re.compile(rf" ?{IN_WORD}+|\s")
"""A piece that may be part of a word, with the space before it."""
NO_BEGINNING = re.compile("pad|mask|sep|unk")
"""In names of special tokens that no text begins with."""
CONTEXT, OF_CHARACTER = 8, 4
"""Tokens before new ones that these are decoded with; of one character, at most."""
UNFINISHED = "\ufffd"
"""What bytes that are not yet a whole character are decoded to."""


class AddedText:
    """The text that tokens add, character by character: what is told of it does not change.

    Some decoders give all bytes of a row as UNFINISHED if those of its last character are not
    whole, so bytes are decoded apart from what follows them.
    """

    def __init__(self, tokenizer: Tokenizer, before: Sequence[int]) -> None:
        self._decode = tokenizer.decode
        first = max(len(before) - CONTEXT, 0)
        contexts = (list(before[max(first - n, 0) :]) for n in range(OF_CHARACTER))
        whole = (context for context in contexts if UNFINISHED not in self._decode(context))
        self._context = next(whole, list(before[first:]))
        self._known = self._decode(self._context)
        self._whole, self._begun = "", list[int]()

    def add(self, token: int) -> None:
        """One token more."""
        self._begun.append(token)
        text = self._decode([*self._context, *self._begun])
        if text.endswith(UNFINISHED):
            return
        self._whole += text[len(self._known) :]
        self._context, self._begun = self._begun, []
        self._known = self._decode(self._context)

    @property
    def text(self) -> str:
        """It ends with UNFINISHED for the bytes of a character that is not whole."""
        return self._whole + str(self._decode(self._begun))


class Vocabulary:
    """A tokenizer, and the text of each of its pieces.

    continues: whether a piece that follows a word is part of it. may_follow: whether a token is
    text or the end of one, and not what the tokenizer does not know.
    """

    def __init__(self, tokenizer: Tokenizer, size: int, *, special_tokens: bool = True) -> None:
        """size: number of the model's tokens, which may be more than the tokenizer's."""
        self._tokenizer = tokenizer
        self._last: tuple[str, list[int]] = "", []
        self._adds_special_tokens = special_tokens
        added = tokenizer.get_added_tokens_decoder()
        special = {token: one.content for token, one in added.items() if one.special}
        self._special = frozenset(special)
        unknown = _unknown(tokenizer)
        self._between = sorted(
            token
            for token, name in special.items()
            if token != unknown and not NO_BEGINNING.search(name.lower())
        )[:1]
        known = tokenizer.get_vocab(with_added_tokens=True).values()  # ids may be left out
        self.may_follow = np.isin(np.arange(size), [*known])
        if unknown is not None:
            self.may_follow[unknown] = False
        self.texts = texts = self._texts(size)
        self._by_text = {text: token for token, text in enumerate(texts) if text}
        order = sorted(range(size), key=texts.__getitem__)
        self._texts_in_order = [texts[token] for token in order]
        self._order = np.array(order)
        self.continues = np.array([CONTINUES.match(text) is not None for text in texts])
        self._wordlike = np.array([WORDLIKE.fullmatch(text) is not None for text in texts])
        self._inner = np.flatnonzero(self.continues & self._wordlike)

    def encode(self, text: str) -> list[int]:
        """As `tokens`, known for the text of the turn before.

        Raises PredictionFailed if there are none.
        """
        tokens = self._last[1] if text and text == self._last[0] else self.tokens(text)
        self._last = text, tokens
        if not tokens:
            raise PredictionFailed(
                "the tokenizer has no special token that a text begins with; send a text of a word "
                "or more"
            )
        return tokens

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text that goes on: without those that the tokenizer ends texts with.

        Of an empty one, the first special token, such as the one between documents, if any.
        """
        encoding = self._tokenizer.encode(text, add_special_tokens=self._adds_special_tokens)
        tokens: list[int] = encoding.ids
        end = len(tokens)
        while end > 1 and encoding.special_tokens_mask[end - 1]:
            end -= 1
        return tokens[:end] or self._between

    def added_text(self, before: Sequence[int], tokens: Sequence[int]) -> AddedText:
        """What tokens add to the text of those before."""
        added = AddedText(self._tokenizer, before)
        for token in tokens:
            added.add(token)
        return added

    def ends(self, token: int) -> bool:
        """Whether a token is no text but the end of one."""
        return token in self._special

    def beginning(self, text: str) -> NDArray[np.int64]:
        """The pieces of words that begin with a text; behind a word's beginning if it is empty."""
        if not text:
            return self._inner
        first = bisect_left(self._texts_in_order, text)
        last = bisect_left(self._texts_in_order, text + chr(0x10FFFF))
        tokens = self._order[first:last]
        return np.asarray(tokens[self._wordlike[tokens]])

    def inside(self, text: str) -> list[int]:
        """The pieces that a text begins with, and is longer than."""
        tokens = (self._by_text.get(text[:end]) for end in range(1, len(text)))
        return [token for token in tokens if token is not None]

    def _texts(self, size: int) -> list[str]:
        tokenizer = self._tokenizer
        anchor = tokenizer.encode(ANCHOR, add_special_tokens=False).ids[-1:]
        known = tokenizer.decode(anchor, skip_special_tokens=False)
        decoded = tokenizer.decode_batch(
            [[*anchor, token] for token in range(size)], skip_special_tokens=False
        )
        texts = [
            text[len(known) :] if self._is_plain(token) and text.startswith(known) else ""
            for token, text in enumerate(decoded)
        ]
        return ["" if UNFINISHED in text else text for text in texts]

    def _is_plain(self, token: int) -> bool:
        return bool(self.may_follow[token]) and token not in self._special


def open_vocabulary(form: Completing, *, size: int) -> Vocabulary:
    """Read a `tokenizer.json`. Raises ModelNotLoadable."""
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_file(form.tokenizer)
    except Exception as error:  # the library raises no narrower one
        raise ModelNotLoadable(f"its tokenizer cannot be read: {error}") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    if tokenizer.decoder is None:
        _add_decoder(tokenizer)
    return Vocabulary(tokenizer, size, special_tokens=form.special_tokens)


def _add_decoder(tokenizer: Tokenizer) -> None:
    """The decoder that undoes how the tokenizer marks words, if its file names none."""
    from tokenizers import decoders

    described = load(tokenizer.to_str())
    before = described["pre_tokenizer"] or {}
    marks = {step["type"] for step in before.get("pretokenizers", [before]) if step}
    if "Metaspace" in marks:
        tokenizer.decoder = decoders.Metaspace()
    elif "ByteLevel" in marks:
        tokenizer.decoder = decoders.ByteLevel()
    elif described["model"]["type"] == "WordPiece":
        tokenizer.decoder = decoders.WordPiece()


def _unknown(tokenizer: Tokenizer) -> int | None:
    model: dict[str, Any] = load(tokenizer.to_str())["model"]
    if isinstance(named := model.get("unk_token"), str):
        token: int | None = tokenizer.token_to_id(named)
        return token
    return model.get("unk_id")
