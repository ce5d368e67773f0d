"""A model that predicts the next token, run token by token, with cached keys and values or without.

Keys and values have the names that Hugging Face Optimum exports: inputs `past_key_values.N.key`,
outputs `present.N.key`, and the same of `value`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from msgspec import Struct

from service.completion.messages import AXIS, PAST, RANK, Completing
from service.errors import PredictionFailed
from service.prediction.frames import Array
from service.training.engines.runtime import LOAD_ERRORS, onnxruntime
from storage.arrays import NDArray

Tokens: TypeAlias = "NDArray[np.int64]"
BLOCK = 128
"""Tokens of a text that are computed at once: the output has a number for each token and piece."""
KEPT_TEXTS = 4
KEPT_BYTES = 64 * 2**20
"""Texts whose keys and values are kept for what follows them, and the bytes of these."""
DTYPES = {
    f"tensor({name})": np.dtype(dtype)
    for name, dtype in (
        ("float", "float32"),
        ("float16", "float16"),
        ("int64", "int64"),
        ("int32", "int32"),
        ("bool", "bool"),
    )
}


class TextState(Struct, frozen=True, eq=False):
    """Texts of one length as the model has read them. tokens: (texts, length).

    past: the keys and values of all these tokens by input, empty for a model without. logits:
    (texts, pieces), of the next token.
    """

    tokens: Tokens
    past: dict[str, Any]
    logits: Array


class Decoder:
    """Belongs to one session. window: the number of tokens that the model sees."""

    def __init__(self, session: Any, form: Completing) -> None:
        """Raises PredictionFailed for a session that is no decoder."""
        self._session = session
        self._form = form
        self._feeds = [*form.feeds.items()]
        self._inputs = {value.name: value for value in session.get_inputs()}
        self._cached = {name: m[1] for name in self._inputs if (m := PAST.fullmatch(name))}
        if strange := self._inputs.keys() - {form.ids, *form.feeds.values(), *self._cached}:
            raise PredictionFailed(
                f"nothing feeds its inputs {sorted(strange)}; completion feeds those that its "
                "preprocess names, and past_key_values.N.key and .value"
            )
        self._dtypes = {name: DTYPES[value.type] for name, value in self._inputs.items()}
        names = [value.name for value in session.get_outputs()]
        self._outputs = [form.output, *(f"present.{layer}" for layer in self._cached.values())]
        if missing := [name for name in self._outputs if name not in names]:
            raise PredictionFailed(f"it has no output {missing[0]!r}; it has {names}")
        axis = self._inputs[form.ids].shape[1]
        self._length: int | None = axis if isinstance(axis, int) else None
        self._kept: list[TextState] = []
        self.window = form.max_tokens if self._length is None else self._length

    @property
    def has_cache(self) -> bool:
        """Whether it takes cached keys and values."""
        return bool(self._cached)

    def size(self) -> int:
        """The number of tokens that it knows. Raises PredictionFailed."""
        return int(self.read([0], room=0).logits.shape[1])

    def read(self, tokens: Sequence[int], *, room: int) -> TextState:
        """One text, or its end if otherwise there is no room for as many tokens as will follow.

        What is kept of an earlier text that begins alike is not computed again. Raises
        PredictionFailed.
        """
        tokens = tokens[-max(self.window - room, 1) :]
        text = np.array([tokens], np.int64)
        if not self._cached:
            return self._run(text, {})
        known, past = self._longest_beginning(text)
        while True:
            end = min(text.shape[1], known + BLOCK)
            reading = self._run(text[:, :end], past, known)
            if end == text.shape[1]:
                return reading
            known, past = end, reading.past

    def read_on(self, before: TextState, rows: list[int], tokens: Sequence[int]) -> TextState:
        """Each of these rows with one more token."""
        text = np.concatenate([before.tokens[rows], np.array(tokens, np.int64)[:, None]], axis=1)
        if not self._cached:
            return self._run(text, {})
        past = before.past
        if list(rows) != [*range(len(before.tokens))]:
            past = {name: _value(value.numpy()[rows]) for name, value in past.items()}
        return self._run(text, past, text.shape[1] - 1)

    def keep(self, reading: TextState) -> None:
        """Keep what was computed of one text for what follows it, in place of its beginning."""
        text = reading.tokens[0]
        self._kept = [e for e in self._kept if _common(e.tokens[0], text) < e.tokens.shape[1]]
        self._kept = [*self._kept, reading][-KEPT_TEXTS:]
        while len(self._kept) > 1 and sum(map(_past_bytes, self._kept)) > KEPT_BYTES:
            self._kept.pop(0)

    def _longest_beginning(self, text: Tokens) -> tuple[int, dict[str, Any]]:
        """How many tokens an earlier text has in common, all but one at most, and their past."""
        # Of texts that have as much in common the last one, which is the likeliest to end there.
        common = [(_common(e.tokens[0], text[0, :-1]), e) for e in reversed(self._kept)]
        length, reading = max(common, key=lambda match: match[0], default=(0, None))
        if reading is None or not length:
            return 0, {name: _value(self._nothing(name)) for name in self._cached}
        if length == reading.tokens.shape[1]:
            return length, reading.past
        cut = {name: _value(value.numpy()[:, :, :length]) for name, value in reading.past.items()}
        return length, cut

    def _nothing(self, name: str) -> Array:
        shape = self._inputs[name].shape
        if len(shape) != RANK or not all(isinstance(shape[axis], int) for axis in (1, AXIS + 1)):
            raise PredictionFailed(
                f"its input {name!r} is {shape}; completion takes (batch, heads, positions, size)"
            )
        return np.zeros((1, shape[1], 0, shape[3]), self._dtypes[name])

    def _run(self, text: Tokens, past: dict[str, Any], known: int = 0) -> TextState:
        """known: how many of the tokens the past is of."""
        try:
            logits, *present = self._session.run_with_ort_values(
                self._outputs, {**self._fed(text, known), **past}
            )
        except LOAD_ERRORS as error:
            raise PredictionFailed(f"the model cannot compute this text: {error}") from error
        last: Array = logits.numpy()[:, text.shape[1] - known - 1]
        if not np.isfinite(last.max()):  # NaN is the largest
            raise PredictionFailed("the model's numbers for this text are not finite")
        return TextState(
            text, dict(zip(self._cached, present, strict=True)), last.astype("float32")
        )

    def _fed(self, text: Tokens, known: int) -> dict[str, Any]:
        """The inputs but the past, each of the type that the model takes."""
        new, length = text[:, known:], text.shape[1]
        if self._length is not None:
            new = np.pad(new, ((0, 0), (0, self._length - length)))
        fed = {self._form.ids: new}
        for role, name in self._feeds:
            row = _OF_ROLE[role](known, new.shape[1], length)
            fed[name] = row[None].repeat(len(text), 0)
        return {name: _value(values.astype(self._dtypes[name])) for name, values in fed.items()}


_OF_ROLE: dict[str, Callable[[int, int, int], Array]] = {
    "attention_mask": lambda known, width, length: np.arange(known + width) < length,
    "position_ids": lambda known, width, _: np.arange(known, known + width),
    "token_type_ids": lambda _, width, __: np.zeros(width),
}
"""Role → one row of its input, by how many tokens are known, new, and there in all."""


def _value(array: Array) -> Any:
    return onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(array))


def _common(some: Tokens, others: Tokens) -> int:
    """How many tokens two texts begin with alike."""
    length = min(len(some), len(others))
    differ = np.flatnonzero(some[:length] != others[:length])
    return int(differ[0]) if len(differ) else length


def _past_bytes(reading: TextState) -> int:
    return sum(int(np.prod(value.shape())) * 4 for value in reading.past.values())
