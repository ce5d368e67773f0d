"""Kind `text`: UTF-8 into token ids, by a tokenizer that belongs to the model.

The daemon checks texts by it, and never tokenizes: children do, by tokens.py.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from service.preprocess.checks import WrongDescription, chosen
from service.preprocess.kind import FileKind, Normalize, Row, Unreadable
from service.preprocess.redaction import parse_leave_out, redactor
from service.preprocess.text_inputs import (
    CHOICES,
    FIELDS,
    FLAGS,
    IDS,
    KIND,
    LEAVE_OUT,
    MAX_TEXT_BYTES,
    OF_TOKENIZER,
    ROLES,
    WORDS,
    length_of,
    roles_of,
    windows_of,
)
from storage.arrays import NDArray
from storage.database.codec import dump
from storage.records.signatures import TensorSpec

if TYPE_CHECKING:
    from service.preprocess.tokens import Encoder

SEPARATOR = "\x1f"
"""Between the two texts of a pair, as a sample is stored: ASCII's unit separator."""
HEADER = 2
"""Numbers of a row before its ids: how many ids there are, and where the second text begins."""


@dataclass(frozen=True)
class Text(FileKind):
    """input: the name of that with the ids. feeds: role → the name of another input.

    stride: a longer text becomes several windows, each this many tokens after the one before, at
    most max_windows; None truncates it. tokenizer: SHA-256 of its file. path: of that file, in
    children. leave_out: what is not stored of texts, see redaction.py. tells_words: whether rows
    say where the words are, for labels of parts of a text.
    """

    kind: ClassVar[str] = KIND
    thing: ClassVar[str] = "text"
    things: ClassVar[str] = "texts"
    wanted: ClassVar[str] = "UTF-8 text"
    media_types: ClassVar[tuple[str, ...]] = ("text/plain",)
    feeds_several: ClassVar[bool] = True

    input: str
    dtype: str
    dtypes: Mapping[str, str]
    feeds: Mapping[str, str]
    max_tokens: int
    truncation: str
    padding: str
    pairs: bool
    special_tokens: bool
    stride: int | None
    max_windows: int
    tokenizer: str = ""
    vocabulary: int = 1
    pad_id: int = 0
    path: str | None = None
    leave_out: Mapping[str, Any] | None = None
    tells_words: bool = False

    @classmethod
    def parse(cls, description: Mapping[str, Any], spec: TensorSpec) -> Text:
        return cls.parse_among(description, {spec.name: spec})

    @classmethod
    def parse_among(cls, description: Mapping[str, Any], specs: Mapping[str, TensorSpec]) -> Text:
        fields = chosen(description, (*FIELDS, *OF_TOKENIZER), CHOICES, **FLAGS)
        for name in FLAGS:
            if not isinstance(fields[name], bool):
                raise WrongDescription(f"/{name}", f"{name} is true or false")
        feeds = roles_of(description, specs)
        spec = specs[fields["input"]]
        tokens, dtypes = length_of(fields, [spec, *(specs[name] for name in feeds.values())])
        stride, windows = windows_of(fields, tokens)
        return cls(
            input=spec.name,
            dtype=spec.dtype,
            dtypes=dtypes,
            feeds=feeds,
            max_tokens=tokens,
            truncation=fields["truncation"],
            padding=fields["padding"],
            pairs=fields["pairs"],
            special_tokens=fields["special_tokens"],
            stride=stride,
            max_windows=windows,
            leave_out=None if (left := fields.get(LEAVE_OUT)) is None else parse_leave_out(left),
            **{name: fields[name] for name in OF_TOKENIZER if name in fields},
        )

    def describe(self) -> dict[str, Any]:
        return {
            "input": self.input,
            "kind": self.kind,
            **{role: self.feeds.get(role) for role in ROLES},
            "max_tokens": self.max_tokens,
            **{name: getattr(self, name) for name in (*CHOICES, *FLAGS)},
            **({} if self.stride is None else self._of_windows()),
            **({} if self.leave_out is None else {LEAVE_OUT: dict(self.leave_out)}),
            **{name: getattr(self, name) for name in OF_TOKENIZER},
        }

    def _of_windows(self) -> dict[str, Any]:
        return {"stride": self.stride, "max_windows": self.max_windows}

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.max_tokens,)

    @property
    def most_ids(self) -> int:
        """Of a text, at most: the rest is cut off."""
        return self.max_tokens + (self.stride or 0) * (self.max_windows - 1)

    @property
    def row_dtype(self) -> str:
        """Of the numbers in a row: two bytes if they suffice."""
        highest = max(self.vocabulary, self.most_ids + 1, MAX_TEXT_BYTES * self.tells_words)
        return "<u2" if highest <= 2**16 else "<u4"

    @property
    def row_numbers(self) -> int:
        """Header, ids, and with them where words begin, and where these end."""
        return HEADER + self.most_ids * (3 if self.tells_words else 1)

    @property
    def row_bytes(self) -> int:
        return self.row_numbers * np.dtype(self.row_dtype).itemsize

    @property
    def row_key(self) -> str:
        said = [self.tokenizer, self.most_ids, self.truncation, self.special_tokens, self.pairs]
        said += ["words"] if self.tells_words else []
        return hashlib.sha256(dump(said).encode()).hexdigest()

    @property
    def encoder(self) -> Encoder:
        """In children."""
        from service.preprocess.tokens import open_encoder

        assert self.path is not None, "only children that are given the tokenizer encode"
        return open_encoder(self.path, self.most_ids, self.truncation, self.special_tokens)

    @staticmethod
    def usual_input(names: Sequence[str]) -> str | None:
        return names[0] if len(names) == 1 else IDS

    def at(self, tokenizer: str | None, *, has_spans: bool = False) -> Text:
        return replace(self, path=tokenizer, tells_words=has_spans)

    def check(self, data: bytes) -> str:
        if len(data) > MAX_TEXT_BYTES:
            raise Unreadable(f"a text has at most {MAX_TEXT_BYTES} bytes, it has {len(data)}")
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            raise Unreadable(
                f"byte {error.start} is not UTF-8 (0x{data[error.start]:02x}); send UTF-8"
            ) from error
        first, second = self.parts(text)
        for part, name in ((first, "it"), (second, "text_pair")):
            if part is not None and not part.strip():
                raise Unreadable(f"{name} is empty; send at least one character that is no space")
        return self.media_types[0]

    @property
    def keeps_less(self) -> bool:
        return self.leave_out is not None

    def kept(self, data: bytes) -> bytes:
        if self.leave_out is None:
            return data
        redact = redactor(self.leave_out)
        return SEPARATOR.join(map(redact, data.decode().split(SEPARATOR))).encode()

    def parts(self, text: str) -> tuple[str, str | None]:
        """The text, and the second of a pair. Raises Unreadable."""
        first, *others = text.split(SEPARATOR)
        if len(others) != int(self.pairs):
            wanted = "two texts, `text` and `text_pair`" if self.pairs else "one text, `text`"
            raise Unreadable(f"the model takes {wanted}, without the character U+001F in them")
        return first, others[0] if others else None

    @staticmethod
    def joined(text: str, second: str | None = None) -> bytes:
        """A sample's bytes as they are stored."""
        return (text if second is None else text + SEPARATOR + second).encode()

    def rows(self, texts: Sequence[bytes]) -> NDArray[np.uint8]:
        """(n, row_bytes): the rows of several texts. Raises Unreadable if one cannot be read."""
        table = np.zeros((len(texts), self.row_numbers), self.row_dtype)
        parts = [self.parts(text.decode()) for text in texts]
        encoded = self.encoder.encode(parts, with_words=self.tells_words)
        for row, (ids, second, words) in zip(table, encoded, strict=True):
            if not ids:
                raise Unreadable("the tokenizer makes no tokens of it")
            row[:HEADER] = len(ids), second
            row[HEADER : HEADER + len(ids)] = ids
            if words is not None:
                self._word_parts(row[None])[:, 0, : len(ids)] = words
        rows: NDArray[np.uint8] = table.view(np.uint8).reshape(len(texts), self.row_bytes)
        return rows

    def row(self, data: bytes) -> Row:
        row: Row = self.rows([data])[0]
        return row

    def words(self, table: NDArray[Any], width: int) -> NDArray[np.int64] | None:
        """(2, n, width), of rows: where words begin and end, see words.py. None if they do not say.

        table: (n, row_numbers).
        """
        if not self.tells_words:
            return None
        return np.asarray(self._word_parts(table)[:, :, :width], np.int64)

    def _word_parts(self, table: NDArray[Any]) -> NDArray[Any]:
        """(2, n, most_ids): a view."""
        parts: NDArray[Any] = table[:, HEADER + self.most_ids :].reshape(len(table), 2, -1)
        turned: NDArray[Any] = parts.swapaxes(0, 1)
        return turned

    def normalizer(self) -> Normalize:
        raise NotImplementedError("a text becomes several inputs, see `arrays`")

    def windows(self, counts: NDArray[Any]) -> NDArray[np.int64]:
        """(n,): how many windows texts of so many ids have, one or more."""
        if self.stride is None:
            return np.ones(len(counts), np.int64)
        beyond = np.maximum(counts.astype(np.int64) - self.max_tokens, 0)
        windows: NDArray[np.int64] = 1 + -(-beyond // self.stride)
        return windows

    def arrays(
        self, ids: NDArray[Any], counts: NDArray[Any], seconds: NDArray[Any]
    ) -> dict[str, NDArray[Any]]:
        """The inputs by name, (n, width) each, padded on the right.

        ids: (n, width), of each text those that are there, then anything. counts: (n,), how many
        are there. seconds: (n,), where the second text begins, 0 without.
        """
        places = np.arange(ids.shape[1])
        is_there = places < counts[:, None]
        begin = seconds.astype(np.int64)[:, None]
        make: dict[str, Callable[[], NDArray[Any]]] = {
            "attention_mask": lambda: is_there,
            "token_type_ids": lambda: is_there & (begin > 0) & (places >= begin),
            "position_ids": lambda: np.where(is_there, places, 0),
        }
        feeds = self.feeds.items()
        return {
            self.input: np.where(is_there, ids, self.pad_id).astype(self.dtype, copy=False),
            **{name: make[role]().astype(self.dtypes[name]) for role, name in feeds},
        }

    def tensors(self, files: Sequence[bytes]) -> dict[str, NDArray[Any]]:
        rows = [self._readable(position, file) for position, file in enumerate(files)]
        table = np.stack(rows).view(self.row_dtype)
        counts = np.minimum(table[:, 0].astype(np.int64), self.max_tokens)
        width = self.width(counts)
        arrays = self.arrays(table[:, HEADER : HEADER + width], counts, table[:, 1])
        words = self.words(table, width)
        return arrays if words is None else {**arrays, WORDS: words.swapaxes(0, 1)}

    def _readable(self, position: int, data: bytes) -> Row:
        try:
            return self.row(data)
        except Unreadable as error:
            raise Unreadable(f"text {position}: {error}") from error

    def width(self, counts: NDArray[Any]) -> int:
        """The length of a batch of texts with so many ids."""
        if self.padding == "max" or not len(counts):
            return self.max_tokens
        return max(1, int(counts.max()))
