"""Stores samples from .npz: an array per input, and optionally one per column."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from msgspec.structs import replace

from service import allocator
from service.errors import InvalidInput
from service.samples.ingest import tensors
from service.samples.ingest.intake import Faults, GoodSamples, IngestResult, Intake, UploadOptions
from service.samples.ingest.labels import columns_of
from service.samples.ingest.npz import Member, open_npz
from service.samples.ingest.require import require_tensors
from service.samples.ingest.windows import Cutter, cutter_of, row_signature
from storage.arrays import NDArray
from storage.errors import Problem, pointer
from storage.records.models import Model
from storage.records.samples import Split
from storage.records.signatures import TensorSpec
from storage.store import Store

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
            batch = NpzBatch(model, members, split=options.columns.get("split"))
            for chunk in batch.chunks(faults=intake.faults):
                intake.add(chunk)
            result = intake.commit(batch.length)
            return replace(result, warnings=(*result.warnings, *batch.warnings()))
    finally:
        allocator.trim()


class NpzBatch:
    """The arrays of one upload, checked against the model's signature: samples, or the rows of a
    recording to cut into windows. split: of those that name none.
    """

    def __init__(
        self, model: Model, members: dict[str, Member], *, split: Split | None = None
    ) -> None:
        self._cutter: Cutter | None = None
        rows = row_signature(model.signature, model.preprocess)
        (first, *_), row = model.signature.inputs, rows.inputs[0]
        if first.name in members and members[first.name].shape[1:] == row.shape != first.shape:
            self._cutter = cutter_of(model, members, split=split, features=model.features)
            model = replace(model, signature=rows)
        self._inputs = model.signature.inputs
        own = {spec.name for spec in self._inputs}
        self._readers = {
            name: column for name, column in columns_of(model).items() if column.named_in_npz(own)
        }
        self._members = members
        problems = [*self._name_problems(), *self._shape_problems()]
        if problems:
            raise InvalidInput("the arrays do not fit the model", problems=problems)
        self.length = members[self._inputs[0].name].shape[0]
        self._refuse_lengths()

    def chunks(self, *, faults: Faults) -> Iterator[GoodSamples]:
        """The good rows in chunks; bad ones are reported to faults."""
        rows = max(1, CHUNK_BYTES // sum(member.row_bytes for member in self._members.values()))
        for start in range(0, self.length, rows):
            count = min(rows, self.length - start)
            complaints: dict[int, list[Problem]] = {}
            records = self._records(start, count, complaints)
            columns = self._columns(start, count, complaints)
            for row in sorted(complaints):
                faults.sample(complaints[row])
            good = [row for row in range(count) if row not in complaints]
            if complaints:
                records = records[good]
                columns = {name: [values[row] for row in good] for name, values in columns.items()}
            samples = GoodSamples(records, columns)
            if self._cutter is None:
                yield samples
            else:
                yield from self._cutter.add(samples, good, count)
        if self._cutter is not None:
            yield from self._cutter.finish()

    def warnings(self) -> Iterator[str]:
        """Warnings about the windows of a recording."""
        return iter(()) if self._cutter is None else self._cutter.warnings()

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
                _note(complaints, row, Problem(pointer(spec.name, start + row), detail))
            parts.append(converted.reshape(count, -1).view(np.uint8))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _columns(
        self, start: int, count: int, complaints: dict[int, list[Problem]]
    ) -> dict[str, list[Any]]:
        columns: dict[str, list[Any]] = {"label": [None] * count}
        for name, reader in self._readers.items():
            if name not in self._members:
                continue
            columns[name], bad = reader.read(self._members[name].take(count))
            for row, complaint in bad.items():
                problem = Problem(f"/{name}/{start + row}", f"sample {start + row}: {complaint}")
                _note(complaints, row, problem)
        return columns

    def _name_problems(self) -> Iterator[Problem]:
        known = [spec.name for spec in self._inputs]
        for name in known:
            if name not in self._members:
                yield Problem(pointer(name), f"the array of input {name!r} is missing")
        for name in self._members:
            if name not in (*known, *self._readers):
                detail = f"the model has no input {name!r}; arrays are {[*known, *self._readers]}"
                yield Problem(pointer(name), detail)

    def _shape_problems(self) -> Iterator[Problem]:
        for spec in self._inputs:
            if spec.name in self._members:
                yield from _input_problems(self._members[spec.name], spec)
        for name, reader in self._readers.items():
            member = self._members.get(name)
            if member and (complaint := reader.array_complaint(member.dtype, member.shape)):
                yield Problem(pointer(name), complaint)

    def _refuse_lengths(self) -> None:
        problems = [
            Problem(pointer(name), f"array {name!r} has {member.shape[0]} rows, not {self.length}")
            for name, member in self._members.items()
            if member.shape[0] != self.length
        ]
        if problems:
            raise InvalidInput("the arrays differ in length", problems=problems)
        if self.length == 0:
            raise InvalidInput.at("", "send at least one row", title="the batch is empty")


def _input_problems(member: Member, spec: TensorSpec) -> Iterator[Problem]:
    if complaint := tensors.type_complaint(member.dtype, spec.dtype):
        yield Problem(pointer(spec.name), f"input {spec.name!r} {complaint}")
    if member.shape[1:] != spec.shape:
        shape, wanted = list(member.shape[1:]), list(spec.shape)
        detail = f"input {spec.name!r} has shape {shape} a sample, the model takes {wanted}"
        yield Problem(pointer(spec.name), detail)


def _note(complaints: dict[int, list[Problem]], row: int, problem: Problem) -> None:
    complaints.setdefault(row, []).append(problem)
