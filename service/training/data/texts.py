"""Texts: tokenized once, cached as rows of ids, and put together by batches of similar length.

A text that has more tokens than the model takes is several windows, each an example of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from time import monotonic
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from service.preprocess.augmentation.draws import Draws
from service.preprocess.kind import Unreadable
from service.preprocess.text import HEADER, Text
from service.preprocess.tokens import use_threads
from service.training.data.batches import Batch, Batches, Indices, check_labels
from service.training.data.decoding import Decoding, StoredFiles, keep, row_of
from service.training.engine import Array
from service.training.tasks.by_token import TextTokens, TokenTask
from service.training.tasks.task import LearningTask
from storage.readonly.sample_index import SampleIndex
from storage.records.signatures import Signature

if TYPE_CHECKING:
    from storage.blobs.row_cache import RowCache

ENCODED_AT_ONCE = 512
MEASURED = 0
"""The seed of what is drawn for measuring: the same for all versions."""
REMEDY = "send long texts in parts, or register the model with more max_tokens"
MOST_LOGITS = 1 << 24
"""Maximum of the numbers that a batch's predictions of all tokens have, in measuring: 64 MB."""


class LabelledTexts(Batches):
    """Windows of labelled texts of one split, all of which must be readable: see `encode_all`.

    counts: (texts,), how many ids each has. task: may make the labels of the tokens.
    Raises SamplesInvalid if a label does not fit the signature.
    """

    def __init__(
        self,
        index: SampleIndex,
        signature: Signature,
        kind: Text,
        cache: RowCache | None,
        *,
        counts: Indices,
        task: LearningTask,
    ) -> None:
        check_labels(index.ids, index.labels, signature.target)
        if cut := int((counts >= kind.most_ids).sum()):
            told = f"training texts that are cut off after {kind.most_ids} tokens, or just fit"
            self.warnings = (f"{told}: {cut:,} of {len(counts):,}; {REMEDY}",)
        windows = kind.windows(counts)
        text = np.repeat(np.arange(len(counts)), windows)
        number = np.arange(len(text)) - np.repeat(np.cumsum(windows) - windows, windows)
        row_bytes = kind.max_tokens * 8 * len(signature.inputs)
        weights = None if index.weights is None else index.weights[text]
        super().__init__(index.ids[text], index.labels[text], row_bytes=row_bytes, weights=weights)
        self._kind = kind
        self._names = [spec.name for spec in signature.inputs]
        self._task, self._target = task if isinstance(task, TokenTask) else None, signature.target
        self._text = text
        self._start = number * (kind.stride or 0)
        lengths = np.minimum(counts[text] - self._start, kind.max_tokens)
        self.lengths = lengths if kind.padding == "batch" else None
        self._counts = lengths
        self._files = StoredFiles(index)
        self._row_of = row_of(index, cache)
        rows = np.empty((0, kind.row_bytes), np.uint8) if cache is None else cache.rows
        self._rows = rows.view(kind.row_dtype)
        if self._task is not None:
            self._unwritten = kind.encoder.special_ids, kind.encoder.mask_id
            classes = len(signature.target.classes or ()) or kind.vocabulary
            self.most_rows = max(1, MOST_LOGITS // (kind.max_tokens * classes))

    @property
    def are_plain(self) -> bool:
        return False  # Batches differ in length.

    def inputs(self, chosen: Indices) -> tuple[Array, ...]:
        return self._tensors(chosen, self._kind.max_tokens)[0]

    def targets(self, chosen: Indices) -> Array:
        return self._tensors(chosen, self._kind.max_tokens)[1]

    def batches(self, order: Indices, *, batch_size: int) -> Iterator[Batch]:
        for start in range(0, len(order), batch_size):
            chosen = order[start : start + batch_size]
            yield self._tensors(chosen, self._kind.width(self._counts[chosen]))

    def _tensors(self, chosen: Indices, width: int) -> Batch:
        """Inputs and targets, padded to the width, or cut off there."""
        texts, start = self._text[chosen], self._start[chosen]
        counts = np.minimum(self._counts[chosen], width)
        table = self._table(texts)
        places = HEADER + start[:, None] + np.arange(width)
        ids = np.take_along_axis(table, np.minimum(places, table.shape[1] - 1), axis=1)
        labels = self.labels[chosen]
        if self._task is not None:
            padded = np.where(np.arange(width) < counts[:, None], ids, self._kind.pad_id)
            words = self._kind.words(table, width)
            ids, labels = self._labelled(self._task, chosen, padded.astype(np.int64), counts, words)
        named = self._kind.arrays(ids, counts, table[:, 1])
        return tuple(named[name] for name in self._names), labels

    def _labelled(
        self,
        task: TokenTask,
        chosen: Indices,
        ids: Indices,
        counts: Indices,
        words: NDArray[np.int64] | None,
    ) -> tuple[Indices, Indices]:
        kind, start = self._kind, self._start[chosen]
        draws = self._draws or Draws(MEASURED, 0)
        special, mask_id = self._unwritten
        tokens = TextTokens(
            ids=ids,
            counts=counts,
            known=np.where(start > 0, kind.max_tokens - (kind.stride or 0), 0),
            vocabulary=kind.vocabulary,
            special=special,
            mask_id=mask_id,
            draw=lambda row: draws.of(int(self.ids[chosen[row]]), place=int(start[row])),
            labels=self.labels[chosen],
            words=words,
            target=self._target,
        )
        return task.labelled(tokens)

    def _table(self, texts: Indices) -> NDArray[Any]:
        """The rows of these texts."""
        rows = self._row_of[texts]
        table = np.zeros((len(texts), self._kind.row_numbers), self._kind.row_dtype)
        known = rows >= 0
        table[known] = self._rows[rows[known]]
        for place in np.flatnonzero(~known).tolist():
            table[place] = self._encoded(int(texts[place]))
        return table

    def _encoded(self, text: int) -> NDArray[Any]:
        try:
            return self._kind.row(self._files[text]).view(self._kind.row_dtype)
        except Unreadable:
            # It was readable when the job started, so it has been erased since: use zeros.
            return np.zeros(self._kind.row_numbers, self._kind.row_dtype)


def encode_all(
    index: SampleIndex,
    kind: Text,
    cache: RowCache | None,
    *,
    threads: int,
    tick: Callable[[], None],
) -> tuple[Decoding, Indices]:
    """Tokenize texts that are not cached, cache those that fit, and find the unreadable ones.

    Gives the number of ids of each text, too. tick runs between batches, and may raise.
    """
    outcome, began = Decoding(), monotonic()
    use_threads(threads)
    counts = np.zeros(len(index.ids), np.int64)
    rows_at = row_of(index, cache)
    known = np.flatnonzero(rows_at >= 0)
    if cache is not None and len(known):
        counts[known] = cache.rows.view(kind.row_dtype)[rows_at[known], 0]
    files, room = StoredFiles(index), cache is not None
    missing = np.flatnonzero(counts == 0)
    for start in range(0, len(missing), ENCODED_AT_ONCE):
        some = missing[start : start + ENCODED_AT_ONCE]
        good, rows = _encoded(files, some.tolist(), kind, outcome)
        if len(good):
            counts[good] = rows.view(kind.row_dtype)[:, 0]
            if room:
                assert cache is not None
                room = keep(cache, index.ids[good], rows)
        tick()
    outcome.kept = int((row_of(index, cache) >= 0).sum())
    outcome.seconds = monotonic() - began
    return outcome, counts


def _encoded(
    files: StoredFiles, positions: list[int], kind: Text, outcome: Decoding
) -> tuple[list[int], NDArray[np.uint8]]:
    """The positions of texts that are readable, and their rows."""
    texts = [files[position] for position in positions]
    try:
        rows, good = kind.rows(texts), positions
    except Unreadable:
        good, encoded = [], []
        for position, text in zip(positions, texts, strict=True):
            try:
                encoded.append(kind.row(text))
                good.append(position)
            except Unreadable as error:
                outcome.unreadable[position] = str(error)
        rows = np.stack(encoded) if encoded else np.empty((0, kind.row_bytes), np.uint8)
    outcome.decoded += len(good)
    return good, rows
