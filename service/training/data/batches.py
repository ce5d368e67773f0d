"""Batches: gathered from memory-mapped packs, in an order determined by seed and epoch.

The samples stay in the page cache; the child copies one window of them at a time. A window holds
several small batches, so that they share the cost of sorting samples by pack.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import islice
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from service.preprocess.augmentation.draws import Draws
from service.training.engine import Array
from service.training.errors import SamplesInvalid
from storage.arrays import NDArray
from storage.readonly.sample_index import SampleIndex
from storage.records.signatures import IGNORED, Signature, TargetSpec, TensorSpec

if TYPE_CHECKING:
    from service.preprocess import Pipeline
    from service.preprocess.augmentation.mixing import Mix

Self = TypeVar("Self", bound="Batches")
Indices: TypeAlias = "NDArray[np.int64]"
Weights: TypeAlias = "NDArray[np.float32]"
Batch = tuple[tuple[Array, ...], Array]
WeightedBatch = tuple[tuple[Array, ...], Array, "Weights | None", "Array | None"]
"""Inputs, target, factors on the losses, and the teacher's predictions."""

BATCH_SIZE = 64
"""Samples of a batch that is not trained on."""
WINDOW_BYTES = 1 << 18
"""A larger batch is gathered alone: while the optimizer's other threads work, and so that it is
still in the processor's cache when it is read."""


class Batches(ABC):
    """Labelled samples, by their position in ascending order of id.

    labels: an array, (samples, …), or what gives parts of one when it is indexed. row_bytes: of one
    sample's inputs. weights: factors on their losses, None if all are 1. mix: applied to training
    batches. teacher: (samples, …), the targets of distillation, if any. with_inputs: makes targets
    of labels and inputs, for a loss that compares these.
    lengths: (samples,), if batches are only as long as their longest sample. most_rows: of a batch
    in measuring, for the memory of its predictions. warnings: for people.
    """

    lengths: Indices | None = None
    warnings: tuple[str, ...] = ()
    most_rows: int = 1 << 20

    def __init__(
        self,
        ids: Indices,
        labels: Any,
        *,
        row_bytes: int,
        weights: Weights | None = None,
        mix: Mix | None = None,
    ) -> None:
        self.ids = ids
        self.labels = labels
        self.weights = weights
        self.mix = mix
        self.teacher: Array | None = None
        self.with_inputs: Callable[[Array, Sequence[Array]], Array] | None = None
        self._row_bytes = row_bytes
        self._draws: Draws | None = None

    def __len__(self) -> int:
        return len(self.labels)

    @abstractmethod
    def inputs(self, chosen: Indices) -> tuple[Array, ...]:
        """The inputs at these positions, batch axis first; valid until the next call."""

    def sample_count(self, chosen: Indices | None = None) -> int:
        """Of all positions, or of these; several may be of one sample."""
        return len(np.unique(self.ids if chosen is None else self.ids[chosen]))

    def labels_of(self, chosen: Indices) -> Array:
        """Their labels, batch axis first, augmented as their inputs are; valid as these are."""
        labels: Array = self.labels[chosen]
        return labels

    def targets(self, chosen: Indices) -> Array:
        """What their predictions are compared with, batch axis first."""
        labels = self.labels_of(chosen)
        return labels if self.with_inputs is None else self._targets(labels, self.inputs(chosen))

    def augmented(self: Self, *, seed: int, epoch: int) -> Self:
        """The samples as an epoch of training sees them: augmented if the model's preprocessing
        says so. seed: the job's."""
        batches = copy(self)
        batches._draws = Draws(seed, epoch)
        return batches

    def exact(self, chosen: Indices) -> tuple[Array, ...]:
        """The inputs as the exported model computes with them: cached ones may be rounded."""
        return self.inputs(chosen)

    def steps(
        self, order: Indices, *, batch_size: int, accumulation_steps: int
    ) -> Iterator[Iterator[WeightedBatch]]:
        """The batches of each optimizer step. Exhaust a step before drawing the next."""
        batches = self._weighted(order, batch_size=batch_size)
        for _ in range(0, len(order), batch_size * accumulation_steps):
            yield islice(batches, accumulation_steps)

    def _weighted(self, order: Indices, *, batch_size: int) -> Iterator[WeightedBatch]:
        weights = None if self.weights is None else self.weights[order]
        for place, (inputs, target) in enumerate(self.batches(order, batch_size=batch_size)):
            start = place * batch_size
            end = start + len(target)
            teacher = None if self.teacher is None else self.teacher[order[start:end]]
            yield inputs, target, None if weights is None else weights[start:end], teacher

    def batches(self, order: Indices, *, batch_size: int) -> Iterator[Batch]:
        """Inputs and targets, batch axis first; the last batch may be smaller, none is empty.

        The arrays are valid until the next batch is drawn.
        """
        window = batch_size * self.batches_at_once(batch_size)
        for start in range(0, len(order), window):
            chosen = order[start : start + window]
            inputs, targets = self.inputs(chosen), self.labels_of(chosen)
            for at in range(0, len(chosen), batch_size):
                part = slice(at, at + batch_size)
                batch = self._mixed(tuple([array[part] for array in inputs]), chosen[part])
                yield batch, self._targets(targets[part], batch)

    def batches_at_once(self, batch_size: int) -> int:
        """How many batches of this size are gathered together."""
        return max(1, WINDOW_BYTES // (self._row_bytes * batch_size))

    @property
    def are_plain(self) -> bool:
        """Whether batches are no more than inputs and targets."""
        return self.weights is None and self.teacher is None and self.mix is None

    def _targets(self, labels: Array, inputs: Sequence[Array]) -> Array:
        return labels if self.with_inputs is None else self.with_inputs(labels, inputs)

    def _mixed(self, inputs: tuple[Array, ...], chosen: Indices) -> tuple[Array, ...]:
        if self.mix is None or self._draws is None:
            return inputs
        mix, draws, ids = self.mix, self._draws, self.ids[chosen].tolist()
        # Features may also include indices and masks.
        return tuple(
            [mix.apply(array, ids, draws) if array.dtype.kind == "f" else array for array in inputs]
        )


class Dataset(Batches):
    """The labelled samples of one split, as stored.

    Raises SamplesInvalid if a label or a record does not fit the signature.
    """

    def __init__(self, index: SampleIndex, signature: Signature) -> None:
        check_labels(index.ids, index.labels, signature.target)
        self._specs = signature.inputs
        self._record = np.dtype((np.void, sum(map(size_bytes, signature.inputs))))
        super().__init__(
            index.ids, index.labels, row_bytes=self._record.itemsize, weights=index.weights
        )
        self._pack_of = index.packs
        self._packs, self._row_of = map_packs(index, self._record)
        self._buffer = np.empty(0, self._record)

    def inputs(self, chosen: Indices) -> tuple[Array, ...]:
        if len(self._buffer) < len(chosen):
            self._buffer = np.empty(len(chosen), self._record)
        records = self._buffer[: len(chosen)]
        self._gather(chosen, records)
        return split_records(records, self._specs)

    def _gather(self, chosen: Indices, records: Array) -> None:
        rows = self._row_of[chosen]
        if len(self._packs) == 1:
            # mode="clip" writes directly into `out`; the rows were checked when mapped.
            np.take(self._packs[0], rows, out=records, mode="clip")
            return
        packs = self._pack_of[chosen]
        for pack in np.flatnonzero(np.bincount(packs)).tolist():
            where = np.flatnonzero(packs == pack)
            records[where] = self._packs[pack][rows[where]]


class Preprocessed(Batches):
    """Samples with the model's preprocessing applied to their inputs. stored: without."""

    def __init__(self, samples: Batches, pipeline: Pipeline) -> None:
        row_bytes = sum(map(size_bytes, pipeline.inputs))
        super().__init__(
            samples.ids,
            samples.labels,
            row_bytes=row_bytes,
            weights=samples.weights,
            mix=pipeline.mix,
        )
        self.stored = samples
        self._pipeline = pipeline

    def inputs(self, chosen: Indices) -> tuple[Array, ...]:
        stored = self.stored.inputs(chosen)
        prepared = [
            self._pipeline.apply(spec.name, rows)
            for spec, rows in zip(self._pipeline.inputs, stored, strict=True)
        ]
        if self._draws is not None:
            ids = self.ids[chosen].tolist()
            prepared = [
                self._pipeline.augmented(place, rows, ids=ids, draws=self._draws)
                for place, rows in enumerate(prepared)
            ]
        return tuple(prepared)


def split_records(records: Array, specs: Sequence[TensorSpec]) -> tuple[Array, ...]:
    """Each tensor of the records: (records, *shape); a view where a record is one tensor."""
    count = len(records)
    table = records.view(np.uint8).reshape(count, records.itemsize)
    arrays, start = [], 0
    for spec in specs:
        part = np.ascontiguousarray(table[:, start : start + size_bytes(spec)])
        arrays.append(part.view(spec.dtype).reshape(count, *spec.shape))
        start += size_bytes(spec)
    return tuple(arrays)


def size_bytes(spec: TensorSpec) -> int:
    """Bytes of one tensor of one sample."""
    return prod(spec.shape) * np.dtype(spec.dtype).itemsize


def check_labels(ids: Indices, labels: NDArray[Any], target: TargetSpec) -> None:
    """Raises SamplesInvalid if an engine would crash on a label, or learn NaN from it."""
    if target.span_types is not None:
        return  # engines take labels of tokens, which are made of them
    if target.num_classes is not None:
        classes = target.num_classes
        bad, valid = (labels < 0) | (labels >= classes), f"in [0, {classes})"
        bad &= (labels != IGNORED) | (not target.may_ignore)
    else:
        bad, valid = ~np.isfinite(labels), "finite"
        bad &= ~np.isnan(labels) | (not target.may_ignore)
    wrong = np.flatnonzero(bad.reshape(len(ids), prod(labels.shape[1:])).any(axis=1))
    if len(wrong):
        raise SamplesInvalid(
            f"sample {ids[wrong[0]]}: its label is not {valid}"
            f" ({len(wrong)} such samples); correct their labels or delete them"
        )


def map_packs(index: SampleIndex, record: np.dtype[np.void]) -> tuple[Sequence[Array], Indices]:
    """The packs as arrays of records, read-only, and each sample's row in its pack.

    Raises SamplesInvalid if a sample is not aligned to a record or is beyond a pack's end.
    """
    packs = [_map_pack(Path(path), record) for path in index.pack_paths]
    rows, rest = np.divmod(index.offsets, record.itemsize)
    lengths = np.array([len(pack) for pack in packs], np.int64)
    wrong = np.flatnonzero((rest != 0) | (rows < 0) | (rows >= lengths[index.packs]))
    if len(wrong):
        first = wrong[0]
        raise SamplesInvalid(
            f"sample {index.ids[first]}: no record of {record.itemsize} bytes lies at byte"
            f" {index.offsets[first]} of {index.pack_paths[index.packs[first]]}"
            f" ({len(wrong)} such samples); restore a backup, or delete them"
        )
    return packs, rows


def _map_pack(path: Path, record: np.dtype[np.void]) -> Array:
    records = path.stat().st_size // record.itemsize
    if records == 0:
        return np.empty(0, record)
    # A plain array: the memmap subclass costs microseconds at every slice.
    return np.asarray(np.memmap(path, record, mode="r", shape=(records,)))
