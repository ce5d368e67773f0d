"""Tokenizers of models, only in children: imports tokenizers."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import Struct

from service.preprocess.kind import Unreadable
from service.preprocess.text_inputs import MAX_TOKENIZER_BYTES
from service.preprocess.words import token_words
from storage.arrays import NDArray

if TYPE_CHECKING:
    import numpy as np

MAX_VOCABULARY = 2**20
CHECK_S = 20.0
"""A tokenizer that is not read, or does not answer the probes, within it is refused."""
PADS = ("[PAD]", "<pad>", "<|pad|>", "<|padding|>", "<|endoftext|>", "</s>")
"""Usual names of the token that pads, the likeliest first."""
MASKS = ("[MASK]", "<mask>", "<|mask|>")
PROBES = (
    *("a", "The cat, it's 12.5 % of ...", "\u00e4\u4e2d\U0001f600", "a" * 512 + "!", " " * 512),
    *(("ab " * 200) + "\n", "0" * 256, "(" * 256, "aA1_" * 128),
)
Encoded: TypeAlias = "tuple[Sequence[int], int, NDArray[np.int64] | None]"
"""Ids, where those of the second text begin, 0 without, and if that is asked for, the words that
they begin: see `token_words`."""


class WrongTokenizer(Exception):
    """The file is no tokenizer that can be used; the text gives the reason for people."""


class TokenizerFacts(Struct, frozen=True):
    """vocabulary: the highest id and 1 more. pad_id: what pads."""

    vocabulary: int
    pad_id: int


class Encoder:
    """Texts into ids. most_ids: of a text with its special tokens, the rest is cut off."""

    def __init__(self, tokenizer: Any, most_ids: int, truncation: str, special: bool) -> None:
        tokenizer.no_padding()
        tokenizer.enable_truncation(most_ids, direction=truncation)
        self.tokenizer = tokenizer
        self._special = special

    @property
    def special_ids(self) -> list[int]:
        """Ids of tokens that nobody writes."""
        added = self.tokenizer.get_added_tokens_decoder()
        return [number for number, token in added.items() if token.special]

    @property
    def mask_id(self) -> int | None:
        """What hides a token; None if the tokenizer has none."""
        numbers = map(self.tokenizer.token_to_id, MASKS)
        return next((number for number in numbers if number is not None), None)

    def encode(
        self, texts: Sequence[tuple[str, str | None]], *, with_words: bool = False
    ) -> list[Encoded]:
        """Raises Unreadable if one of them cannot be tokenized."""
        pairs = [first if second is None else (first, second) for first, second in texts]
        tokenizer = self.tokenizer
        encode = tokenizer.encode_batch if with_words else tokenizer.encode_batch_fast
        encodings = _guarded(lambda: encode(pairs, add_special_tokens=self._special))
        return [
            (
                encoding.ids,
                _second(encoding.type_ids),
                token_words(text, encoding.offsets) if with_words else None,
            )
            for encoding, (text, _) in zip(encodings, texts, strict=True)
        ]


def _second(types: Sequence[int]) -> int:
    return types.index(1) if 1 in types else 0


@lru_cache(maxsize=4)
def open_encoder(path: str, most_ids: int, truncation: str, special: bool) -> Encoder:
    """One for each way in which a process uses a file. Raises WrongTokenizer."""
    return Encoder(_load(Path(path)), most_ids, truncation, special)


def use_threads(count: int) -> None:
    """How many threads encode; has an effect before the first text alone."""
    os.environ["RAYON_NUM_THREADS"] = str(count)
    os.environ["TOKENIZERS_PARALLELISM"] = "true"


def examine(path: Path) -> TokenizerFacts:
    """Read an uploaded tokenizer and try it. Raises WrongTokenizer."""
    if path.stat().st_size > MAX_TOKENIZER_BYTES:
        raise WrongTokenizer(f"a tokenizer.json has at most {MAX_TOKENIZER_BYTES} bytes")
    outcome: list[TokenizerFacts | WrongTokenizer] = []

    def work() -> None:
        try:
            outcome.append(_examined(_load(path)))
        except WrongTokenizer as wrong:
            outcome.append(wrong)

    # The library gives other threads their turn while it works: so its time can be limited.
    worker = Thread(target=work, daemon=True)
    worker.start()
    worker.join(CHECK_S)
    if not outcome:
        raise WrongTokenizer(
            f"it did not tokenize {len(PROBES)} short texts within {CHECK_S:g} s; its regular"
            " expressions or its normalizer may never end"
        )
    facts = outcome[0]
    if isinstance(facts, WrongTokenizer):
        raise facts
    return facts


def _examined(tokenizer: Any) -> TokenizerFacts:
    vocabulary = 1 + max(tokenizer.get_vocab(with_added_tokens=True).values(), default=-1)
    if not 2 <= vocabulary <= MAX_VOCABULARY:
        raise WrongTokenizer(f"it has ids below {vocabulary}; from 2 to {MAX_VOCABULARY} are taken")
    padding = tokenizer.padding
    named = (tokenizer.token_to_id(name) for name in PADS)
    pad_id = padding["pad_id"] if padding else next((n for n in named if n is not None), 0)
    tokenizer.no_padding()
    tokenizer.no_truncation()
    try:
        encodings = _guarded(lambda: tokenizer.encode_batch(list(PROBES)))
    except Unreadable as error:
        raise WrongTokenizer(f"it does not tokenize a short text: {error}") from error
    if not any(encoding.ids for encoding in encodings):
        raise WrongTokenizer("it gives no tokens for ordinary texts")
    return TokenizerFacts(vocabulary, int(pad_id))


def _load(path: Path) -> Any:
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises bare Exception
        raise WrongTokenizer(f"this is no tokenizer.json: {str(error)[:300]}") from error


def _guarded(encode: Callable[[], list[Any]]) -> list[Any]:
    """Raises Unreadable for an error or a panic of the library's."""
    try:
        return encode()
    except Exception as error:
        raise Unreadable(f"the tokenizer cannot take it: {str(error)[:200]}") from error
    except BaseException as panic:
        if type(panic).__name__ != "PanicException":
            raise
        raise Unreadable(f"the tokenizer gives up on it: {str(panic)[:200]}") from panic
