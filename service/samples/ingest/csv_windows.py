"""Cuts the rows of a recording into windows while they are read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
from msgspec.structs import replace

from service.preprocess import Description, for_signature
from service.samples.ingest import tensors
from service.samples.ingest.csv_header import wrong_csv
from service.samples.ingest.intake import GoodSamples
from storage.errors import Problem
from storage.records.models import Model
from storage.records.samples import Label, Split
from storage.records.signatures import Signature, TensorSpec

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from service.preprocess.windows import Windows

BYTES_AT_ONCE = 8 * 2**20
PARTS = 10
"""One part in ten is for validation."""
WINDOWS_A_PART = 4
"""Length, in windows, of a part of a recording whose windows overlap."""


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


class Cutter:
    """Takes rows in order, and builds windows from them.

    A window has the split that its rows name. If windows overlap and no split is named, the
    recording is divided into parts, and one in ten is for validation; the bytes of the first window
    choose the first of these. If single windows were split, nearly equal ones would be in both
    splits. Windows that cross from one split into the other are left out.
    """

    def __init__(self, model: Model, kind: Windows, *, split: Split | None) -> None:
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
        yield from self._windows()

    def require_a_window(self) -> None:
        """Raises InvalidInput if the recording has ended and was shorter than a window."""
        length = self._kind.length
        if self.rows < length:
            detail = f"the recording has {self.rows} rows, and a window of this model {length}"
            raise wrong_csv(
                Problem("", f"{detail}; send a longer recording, each in a CSV of its own")
            )

    def warnings(self) -> tuple[str, ...]:
        """How many windows were left out, if any were."""
        if not self.left_out:
            return ()
        return (
            f"{self.left_out} windows were left out: they reach from one split into the other, or"
            " over a row that cannot be read",
        )

    def _windows(self) -> Iterator[GoodSamples]:
        kind, length, stride = self._kind, self._kind.length, self._kind.stride
        whole = self._records.view(tensors.little_endian(self._spec.dtype))
        starts = range(0, len(whole) - length + 1, stride)
        step = max(1, BYTES_AT_ONCE // (length * self._records.shape[1]))
        for first in range(0, len(starts), step):
            some = starts[first : first + step]
            kept = [at for at in some if self._is_kept(at, whole[at : at + length])]
            windows = np.stack([whole[at : at + length] for at in kept]) if kept else whole[:0]
            if kept:
                yield self._samples(kind.laid(windows), kept)
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

    def _is_kept(self, at: int, window: NDArray[np.generic]) -> bool:
        rows = self._rows[at : at + self._kind.length]
        if self._phase is None:
            digest = sha256(np.ascontiguousarray(window).tobytes()).digest()
            self._phase = digest[0] % PARTS
        splits = {row["split"] for row in rows if row is not None}
        ends = (self._start + at, self._start + at + self._kind.length - 1)
        named = self._split is not None or splits != {None}
        is_kept = None not in rows and len(splits) == 1
        if is_kept and not named and self._kind.stride < self._kind.length:
            is_kept = self._part_split(ends[0]) is self._part_split(ends[1])
        self.left_out += not is_kept
        return is_kept

    def _split_of(self, at: int) -> Split | None:
        row = self._rows[at]
        named = self._split if row is None or row["split"] is None else row["split"]
        overlap = self._kind.stride < self._kind.length
        return self._part_split(self._start + at) if named is None and overlap else named

    def _part_split(self, row: int) -> Split:
        part = row // (WINDOWS_A_PART * self._kind.length)
        return Split.TRAIN if (part + (self._phase or 0)) % PARTS else Split.VALIDATION

    def _label(self, at: int) -> Label:
        rows = self._rows[at : at + self._kind.length]
        labels: list[Label] = [row["label"] for row in rows if row is not None]
        if not self._by_majority:
            return labels[-1]
        given = [label for label in labels if label is not None]
        counts = Counter(given)
        most = max(counts.values(), default=0)
        # Among equally frequent labels, the later one.
        return next((label for label in reversed(given) if counts[label] == most), None)
