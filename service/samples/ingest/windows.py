"""Cuts the rows of a recording into windows while they are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from hashlib import sha256
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from service.errors import InvalidInput
from service.preprocess import Description, for_signature
from service.preprocess.checks import WrongDescription
from service.samples.ingest import tensors
from service.samples.ingest.csv_header import check_features
from service.samples.ingest.intake import GoodSamples
from service.samples.ingest.labels import LabelReader, label_reader
from storage.arrays import NDArray
from storage.records.models import Model
from storage.records.samples import Label, Split
from storage.records.signatures import Signature, TensorSpec

if TYPE_CHECKING:
    from service.preprocess.windows import Windows

BYTES_AT_ONCE = 8 * 2**20
PARTS = 10
"""One part in ten is for validation."""
WINDOWS_A_PART = 4
"""Length, in windows and their labels' rows, of a part of a recording whose windows overlap."""


def windows_of(signature: Signature, preprocess: Sequence[Description]) -> Windows | None:
    """How a model's recordings are cut; None for a model with one sample per row."""
    if not preprocess or len(signature.inputs) > 1:
        return None
    from service.preprocess.windows import Windows

    kind = for_signature(signature, preprocess).kinds.get(signature.inputs[0].name)
    return kind if isinstance(kind, Windows) else None


def row_signature(signature: Signature, preprocess: Sequence[Description]) -> Signature:
    """The content of a CSV's rows: samples, or moments of a recording."""
    kind = windows_of(signature, preprocess)
    if kind is None:
        return signature
    return replace(signature, inputs=(kind.row_spec(signature.inputs[0]),))


def check_channels(
    signature: Signature,
    preprocess: Sequence[Description],
    features: Sequence[str] | None,
    *,
    at: str,
) -> tuple[str, ...] | None:
    """As `check_features`, for a model that may cut recordings. Raises InvalidInput."""
    names = check_features(row_signature(signature, preprocess), features, at=at)
    kind = windows_of(signature, preprocess)
    if names and kind is not None and kind.forecast is not None:
        try:
            kind.forecast.places(names)
        except WrongDescription as error:
            raise InvalidInput.at(at, error.detail, title="features and forecast differ") from error
    return names


def cutter_of(
    model: Model, columns: Collection[str], *, split: Split | None, features: Sequence[str] | None
) -> Cutter | None:
    """Of a recording; None for a model with one sample per row.

    columns: what it says of its rows. split, features: see `Cutter`. Raises InvalidInput.
    """
    kind = windows_of(model.signature, model.preprocess)
    if kind is None:
        return None
    if "key" in columns:
        raise _wrong("a window has many rows, and so no key; leave the column out")
    if "label" in columns and kind.forecast is not None:
        raise _wrong("labels are made of the recording's own rows; leave the column out")
    return Cutter(model, kind, split=split, features=features)


class Cutter:
    """Takes rows in order, and builds windows from them.

    A window has the split that its rows name. If windows overlap and no split is named, the
    recording is divided into parts, and one in ten is for validation; the bytes of the first window
    choose the first of these. If single windows were split, nearly equal ones would be in both
    splits. Windows that cross from one split into the other are left out.

    The label of a forecast is of the rows behind the window, which must be of its split, too.
    Windows at the end whose label is still to come have none. features: names of the channels.
    Raises InvalidInput.
    """

    def __init__(
        self,
        model: Model,
        kind: Windows,
        *,
        split: Split | None,
        features: Sequence[str] | None,
    ) -> None:
        self._forecast = None if kind.forecast is None else _Labels(model, kind, features)
        self._span = kind.length + (0 if kind.forecast is None else kind.forecast.horizon)
        self._spec: TensorSpec = kind.row_spec(model.signature.inputs[0])
        target = model.signature.target
        self._by_majority = kind.label == "majority" and target.num_classes and not target.shape
        self._kind = kind
        self._split = split
        self._records = np.empty((0, tensors.input_bytes(self._spec)), np.uint8)
        self._rows: list[dict[str, Any] | None] = []
        self._start = 0
        self._phase: int | None = None
        self.rows = 0
        self.left_out = 0
        self._waiting = 0

    def add(self, rows: GoodSamples, good: Sequence[int], count: int) -> Iterator[GoodSamples]:
        """good: the positions of the rows among `count`; no window crosses a bad one."""
        records = np.zeros((count, self._records.shape[1]), np.uint8)
        records[list(good)] = rows.records
        self._records = np.concatenate([self._records, records])
        about: list[dict[str, Any] | None] = [None] * count
        for at, values in zip(good, zip(*rows.columns.values(), strict=True), strict=True):
            about[at] = dict(zip(rows.columns, values, strict=True))
        self._rows += about
        self.rows += count
        yield from self._windows(self._span)

    def finish(self) -> Iterator[GoodSamples]:
        """The windows whose label is still to come, once the recording has ended.

        Raises InvalidInput if it was shorter than a window.
        """
        length = self._kind.length
        if self.rows < length:
            detail = f"the recording has {self.rows} rows, and a window of this model {length}"
            raise _wrong(f"{detail}; send a longer recording, each in a body of its own")
        if self._forecast is not None and len(self._rows) >= length:
            self._waiting = len(self._rows)
            yield from self._windows(length)

    def warnings(self) -> Iterator[str]:
        """How many windows were left out, and how many rows those hold that wait for a label."""
        if self.left_out:
            yield (
                f"{self.left_out} windows were left out: they reach from one split into the other,"
                " or over a row that cannot be read"
            )
        if self._waiting:
            yield (
                "the windows at the end wait for their labels; begin the next recording with the"
                f" last {self._waiting} rows of this one, and they get them"
            )

    def _windows(self, span: int) -> Iterator[GoodSamples]:
        """The next ones. span: how many rows each needs, with those of its label."""
        kind, length, stride = self._kind, self._kind.length, self._kind.stride
        whole = self._records.view(tensors.little_endian(self._spec.dtype))
        starts = range(0, len(whole) - span + 1, stride)
        runs, most = self._runs(), len(whole) - 1
        step = max(1, BYTES_AT_ONCE // (length * self._records.shape[1]))
        for first in range(0, len(starts), step):
            some = starts[first : first + step]
            if some and self._phase is None:
                digest = sha256(np.ascontiguousarray(whole[:length]).tobytes()).digest()
                self._phase = digest[0] % PARTS
            ends = [(at, min(at + self._span - 1, most)) for at in some]
            kept = [at for at, end in ends if self._is_kept(at, end, runs)]
            self.left_out += len(some) - len(kept)
            if kept:
                windows = np.stack([whole[at : at + length] for at in kept])
                samples = self._samples(kind.laid(windows), kept)
                if self._forecast is not None and span > length:
                    samples.columns["label"] = self._forecast.of(whole, kept)
                yield samples
        done = len(starts) * stride
        self._records, self._rows = self._records[done:], self._rows[done:]
        self._start += done

    def _samples(self, windows: NDArray[np.generic], starts: Sequence[int]) -> GoodSamples:
        """Columns besides label and split are those of a window's last row."""
        ends = [at + self._kind.length - 1 for at in starts]
        last = [row for row in map(self._rows.__getitem__, ends) if row is not None]
        records = np.ascontiguousarray(windows).reshape(len(starts), -1).view(np.uint8)
        samples = GoodSamples.of_rows(records, last)
        samples.columns["label"] = [self._label(at) for at in starts]
        samples.columns["split"] = [self._split_of(at) for at in starts]
        return samples

    def _runs(self) -> NDArray[np.int64]:
        """(rows,): the number of the run of rows of one split, or of bad ones, that each is in."""
        marks = [False if row is None else row.get("split") for row in self._rows]
        changes = [before is not now for before, now in pairwise(marks)]
        return np.cumsum([0, *changes], dtype=np.int64)

    def _is_kept(self, at: int, end: int, runs: NDArray[np.int64]) -> bool:
        """Whether the rows from `at` to `end` are good, and of one split."""
        row = self._rows[at]
        if row is None or runs[at] != runs[end]:
            return False
        named = self._split is not None or row.get("split") is not None
        if named or self._kind.stride >= self._kind.length:
            return True
        return self._part_split(self._start + at) is self._part_split(self._start + end)

    def _split_of(self, at: int) -> Split | None:
        row = self._rows[at]
        own = None if row is None else row.get("split")
        named = self._split if own is None else own
        overlap = self._kind.stride < self._kind.length
        return self._part_split(self._start + at) if named is None and overlap else named

    def _part_split(self, row: int) -> Split:
        part = row // (WINDOWS_A_PART * self._span)
        return Split.TRAIN if (part + (self._phase or 0)) % PARTS else Split.VALIDATION

    def _label(self, at: int) -> Label:
        rows = self._rows[at : at + self._kind.length]
        labels: list[Label] = [row["label"] for row in rows if row is not None]
        if not self._by_majority:
            return labels[-1]
        known = [label for label in labels if label is not None]
        counts = Counter(known)
        most = max(counts.values(), default=0)
        # Among equally frequent labels, the later one.
        return next((label for label in reversed(known) if counts[label] == most), None)


class _Labels:
    """The labels of a forecast. features: names of the channels. Raises InvalidInput."""

    def __init__(self, model: Model, kind: Windows, features: Sequence[str] | None) -> None:
        assert kind.forecast is not None
        target, reader = model.signature.target, label_reader(model)
        assert isinstance(reader, LabelReader)
        self._reader, self._shape = reader, target.shape
        try:
            self._places = kind.forecast.places(features)
        except WrongDescription as error:
            raise _wrong(f"{error.detail}; the CSV's header or PATCH features names them") from None
        steps, horizon = kind.forecast.steps(target), kind.forecast.horizon
        self._behind = kind.length - 1 + np.arange(horizon + 1 - steps, horizon + 1)

    def of(self, rows: NDArray[np.generic], starts: Sequence[int]) -> list[Label]:
        """Of the windows at these rows. rows: (n, channels)."""
        values = rows[np.array(starts)[:, None] + self._behind][..., self._places]
        labels, wrong = self._reader.read(values.reshape(len(starts), *self._shape))
        if wrong:
            raise _wrong(next(iter(wrong.values())))
        return labels


def _wrong(detail: str) -> InvalidInput:
    return InvalidInput.at("", detail, title="the recording cannot be cut into windows")
