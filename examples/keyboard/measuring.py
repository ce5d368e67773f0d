"""How well a model predicts what is typed: perplexity, likeliest tokens, and words saved typing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import exp

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from tokenizers import Tokenizer

BATCH_SIZE = 32
LONGEST = 48
SUGGESTIONS = 3
SPACE = "\u0120"
"""What byte-pair encoding writes a space as: a word begins with it."""


class Keyboard:
    """A version of the model, as an app runs it."""

    def __init__(self, model: bytes, tokenizer: str) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1  # so small a model takes no longer, and nothing spins
        self._session = onnxruntime.InferenceSession(
            model, options, providers=["CPUExecutionProvider"]
        )
        self._tokenizer = Tokenizer.from_str(tokenizer)
        names = (self._tokenizer.id_to_token(n) for n in range(self._tokenizer.get_vocab_size()))
        self._begins = np.array([(name or "").startswith(SPACE) for name in names])

    def measure(self, texts: Sequence[str]) -> tuple[float, float]:
        """Perplexity of a token, and the share of tokens that were among the three likeliest."""
        losses, near = [], []
        for logits, truth in self._scored(texts):
            wide = logits.astype(np.float64)
            own = np.take_along_axis(wide, truth[:, None], 1)
            losses.append(np.log(np.exp(wide - own).sum(1)))
            near.append((wide > own).sum(1) < SUGGESTIONS)
        return exp(float(np.concatenate(losses).mean())), float(np.concatenate(near).mean())

    def saved(self, texts: Sequence[str]) -> float:
        """The share of words, after the first, that were among the suggestions before a letter."""
        right = total = 0
        for text in texts:
            words = text.split()
            for at in range(1, len(words)):
                right += words[at] in self.suggestions(" ".join(words[:at]))
                total += 1
        return right / total

    def suggestions(self, text: str) -> list[str]:
        """The likeliest words after a text: the likeliest beginnings, each to where a word ends."""
        ids = self._tokenizer.encode(text).ids[-LONGEST + 8 :]
        scores = np.where(self._begins, self._run([ids])[0, -1], -np.inf)
        first = np.argsort(-scores)[:SUGGESTIONS].tolist()
        return [self._to_the_end(ids, each) for each in first]

    def _to_the_end(self, ids: list[int], first: int) -> str:
        made = [first]
        while len(made) < 8:
            following = int(self._run([ids + made])[0, -1].argmax())
            if self._begins[following]:
                break
            made.append(following)
        return str(self._tokenizer.decode(made)).strip()

    def _scored(
        self, texts: Sequence[str]
    ) -> Iterator[tuple[NDArray[np.float32], NDArray[np.int64]]]:
        """For each text, the logits before each token but the first, and that token."""
        rows = [each.ids[:LONGEST] for each in self._tokenizer.encode_batch(list(texts))]
        rows.sort(key=len)
        for at in range(0, len(rows), BATCH_SIZE):
            some = rows[at : at + BATCH_SIZE]
            for ids, logits in zip(some, self._run(some), strict=True):
                yield logits[: len(ids) - 1], np.array(ids[1:])

    def _run(self, rows: Sequence[Sequence[int]]) -> NDArray[np.float32]:
        width = max(map(len, rows))
        ids, mask = np.zeros((2, len(rows), width), np.int64)
        for row, each in enumerate(rows):
            ids[row, : len(each)], mask[row, : len(each)] = each, 1
        fed = {"input_ids": ids, "attention_mask": mask}
        logits: NDArray[np.float32] = self._session.run(None, fed)[0]
        return logits
