"""Checks samples of an archive, which come as stored bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from service.samples.ingest import tensors
from storage.records.signatures import TensorSpec


def bad_tensors(
    data: bytes, lengths: Sequence[int], inputs: tuple[TensorSpec, ...]
) -> tuple[int, str] | None:
    """The first record that is not a valid sample of these inputs, and why.

    data: the records, concatenated, as in packs. lengths: of each, in bytes.
    """
    size = tensors.record_bytes(inputs)
    for row, length in enumerate(lengths):
        if length != size:
            return row, f"it has {length} bytes, a sample of this model has {size}"
    table = np.frombuffer(data, np.uint8).reshape(len(lengths), size)
    found: list[tuple[int, str]] = []
    start = 0
    for spec in inputs:
        width = tensors.input_bytes(spec)
        part = np.ascontiguousarray(table[:, start : start + width])
        start += width
        if complaint := _first_bad(part, spec):
            found.append(complaint)
    return min(found, default=None)


def _first_bad(part: np.ndarray, spec: TensorSpec) -> tuple[int, str] | None:
    if spec.dtype == "bool":
        (rows,) = np.nonzero((part > 1).any(axis=1))
        detail = "holds a byte that is neither 0 nor 1; the model takes booleans"
    else:
        values = part.view(tensors.little_endian(spec.dtype)).reshape(len(part), *spec.shape)
        _, bad = tensors.convert(values, spec.dtype)
        (rows,) = np.nonzero(bad)
        detail = tensors.range_complaint(values[rows[0]], spec.dtype) if len(rows) else ""
    return (int(rows[0]), f'input "{spec.name}" {detail}') if len(rows) else None
