"""Stores samples from .npz: an array per input, and optionally `label`, `key` and `weight`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from msgspec import Struct

from service import allocator
from service.errors import InvalidInput
from service.samples.ingest import tensors
from service.samples.ingest.intake import Faults, IngestResult, Intake, UploadOptions
from service.samples.ingest.json_upload import key_complaint, label_reader
from service.samples.ingest.labels import Label
from service.samples.ingest.npz import Member, open_npz
from service.samples.ingest.require import require_tensors
from service.samples.ingest.weights import WeightReader
from storage.errors import Problem
from storage.records.models import Model
from storage.records.signatures import TensorSpec
from storage.store import Store

if TYPE_CHECKING:
    from numpy.typing import NDArray

EXTRAS = ("label", "key", "weight")
CHUNK_BYTES = 2 * 2**20
"""Approximate size of the chunks of rows that are read, checked and staged."""


def store_npz(
    store: Store, model: Model, path: Path, options: UploadOptions, *, max_bytes: int
) -> IngestResult:
    """Check and stage the rows chunk by chunk, then store all of them, or the good ones.

    Memory does not grow with the number of rows. max_bytes: of all arrays unpacked.
    Raises InvalidInput with every bad row, TooLarge.
    """
    require_tensors(model)
    try:
        with (
            open_npz(path, max_bytes=max_bytes) as members,
            Intake(store, model, options) as intake,
        ):
            batch = NpzBatch(model, members)
            for chunk in batch.chunks(faults=intake.faults):
                intake.add(
                    chunk.records,
                    chunk.labels,
                    key=chunk.keys,
                    split=options.split,
                    weights=chunk.weights,
                )
            return intake.commit(batch.length)
    finally:
        allocator.trim()


class Chunk(Struct, frozen=True):
    """Valid rows. records: (n, record_bytes) uint8. keys, weights: None if absent."""

    records: NDArray[np.uint8]
    labels: list[Label]
    keys: list[str | None] | None
    weights: list[float] | None


class NpzBatch:
    """The arrays of one upload, checked against the model's signature."""

    def __init__(self, model: Model, members: dict[str, Member]) -> None:
        self._inputs = model.signature.inputs
        self._label_reader = label_reader(model)
        self._weight_reader = WeightReader(model)
        self._members = members
        problems = [*self._name_problems(), *self._shape_problems()]
        if problems:
            raise InvalidInput("the arrays do not fit the model", problems=problems)
        self.length = members[self._inputs[0].name].shape[0]
        self._refuse_lengths()

    def chunks(self, *, faults: Faults) -> Iterator[Chunk]:
        """The good rows in chunks; bad ones are reported to faults."""
        rows = max(1, CHUNK_BYTES // sum(each.row_bytes for each in self._members.values()))
        for start in range(0, self.length, rows):
            count = min(rows, self.length - start)
            complaints: dict[int, list[Problem]] = {}
            records = self._records(start, count, complaints)
            labels = self._labels(start, count, complaints)
            keys = self._keys(start, count, complaints)
            weights = self._weights(start, count, complaints)
            for row in sorted(complaints):
                faults.sample(complaints[row])
            if complaints:
                good = [row for row in range(count) if row not in complaints]
                records, labels = records[good], [labels[row] for row in good]
                keys = keys and [keys[row] for row in good]
                weights = weights and [weights[row] for row in good]
            yield Chunk(records, labels, keys, weights)

    def _records(
        self, start: int, count: int, complaints: dict[int, list[Problem]]
    ) -> NDArray[np.uint8]:
        parts = []
        for spec in self._inputs:
            rows = self._members[spec.name].take(count)
            converted, bad = tensors.convert(rows, spec.dtype)
            for row in np.flatnonzero(bad).tolist():
                detail = f"sample {start + row}: input {spec.name!r} "
                detail += tensors.range_complaint(rows[row], spec.dtype)
                _note(complaints, row, Problem(f"/{spec.name}/{start + row}", detail))
            parts.append(converted.reshape(count, -1).view(np.uint8))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _labels(self, start: int, count: int, complaints: dict[int, list[Problem]]) -> list[Label]:
        if "label" not in self._members:
            return [None] * count
        labels, bad = self._label_reader.read(self._members["label"].take(count))
        for row, complaint in bad.items():
            problem = Problem(f"/label/{start + row}", f"sample {start + row}: {complaint}")
            _note(complaints, row, problem)
        return labels

    def _weights(
        self, start: int, count: int, complaints: dict[int, list[Problem]]
    ) -> list[float] | None:
        if "weight" not in self._extras or "weight" not in self._members:
            return None
        weights, bad = self._weight_reader.read(self._members["weight"].take(count))
        for row, complaint in bad.items():
            problem = Problem(f"/weight/{start + row}", f"sample {start + row}: {complaint}")
            _note(complaints, row, problem)
        return weights

    @property
    def _extras(self) -> list[str]:
        """The arrays that are not inputs. An input may be named weight."""
        own = {spec.name for spec in self._inputs}
        return [name for name in EXTRAS if name != "weight" or name not in own]

    def _keys(
        self, start: int, count: int, complaints: dict[int, list[Problem]]
    ) -> list[str | None] | None:
        if "key" not in self._members:
            return None
        given = self._members["key"].take(count)
        if given.dtype.kind != "U":
            return [str(key) for key in given.tolist()]
        keys = tensors.texts(given)
        for row, key in enumerate(keys):
            if complaint := tensors.UNREADABLE if key is None else key_complaint(key or None):
                detail = f"sample {start + row}: {complaint}"
                _note(complaints, row, Problem(f"/key/{start + row}", detail))
        return [key or None for key in keys]

    def _name_problems(self) -> Iterator[Problem]:
        known = [spec.name for spec in self._inputs]
        for name in known:
            if name not in self._members:
                yield Problem(f"/{name}", f"the array of input {name!r} is missing")
        for name in self._members:
            if name not in (*known, *self._extras):
                detail = f"the model has no input {name!r}; arrays are {[*known, *self._extras]}"
                yield Problem(f"/{name}", detail)

    def _shape_problems(self) -> Iterator[Problem]:
        for spec in self._inputs:
            if spec.name in self._members:
                yield from _input_problems(self._members[spec.name], spec)
        if (label := self._members.get("label")) is not None:
            empty = np.empty((0, *label.shape[1:]), dtype=label.dtype)
            if complaint := self._label_reader.array_complaint(empty):
                yield Problem("/label", complaint)
        if (key := self._members.get("key")) is not None and (
            key.dtype.kind not in "Uiu" or len(key.shape) != 1
        ):
            yield Problem("/key", "array 'key' holds one text or integer a sample")
        weight = self._members.get("weight") if "weight" in self._extras else None
        if weight is not None and (
            complaint := self._weight_reader.array_complaint(weight.dtype, weight.shape)
        ):
            yield Problem("/weight", complaint)

    def _refuse_lengths(self) -> None:
        problems = [
            Problem(f"/{name}", f"array {name!r} has {member.shape[0]} rows, not {self.length}")
            for name, member in self._members.items()
            if member.shape[0] != self.length
        ]
        if problems:
            raise InvalidInput("the arrays differ in length", problems=problems)
        if self.length == 0:
            raise InvalidInput(
                "the batch is empty", problems=[Problem("", "send at least one row")]
            )


def _input_problems(member: Member, spec: TensorSpec) -> Iterator[Problem]:
    if complaint := tensors.type_complaint(member.dtype, spec.dtype):
        yield Problem(f"/{spec.name}", f"input {spec.name!r} {complaint}")
    if member.shape[1:] != spec.shape:
        given, wanted = list(member.shape[1:]), list(spec.shape)
        detail = f"input {spec.name!r} has shape {given} a sample, the model takes {wanted}"
        yield Problem(f"/{spec.name}", detail)


def _note(complaints: dict[int, list[Problem]], row: int, problem: Problem) -> None:
    complaints.setdefault(row, []).append(problem)
