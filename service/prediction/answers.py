"""Forms of an answer: JSON, npz, or the bytes of one array."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from service.errors import InvalidInput
from service.prediction.frames import Array
from service.preprocess.boxes.labels import BOXES, named
from service.samples.ingest.tensors import little_endian
from service.training.tasks.task import LABEL, TOP, VALUES
from storage.database.codec import encode

Fields = Mapping[str, Array]
DIGITS = {"float16": 5, "float32": 9}
"""Significant decimal digits that give each number back."""
EXACT_POWERS = tuple(float(f"1e{places}") for places in range(23))
"""The powers of ten that float64 holds exactly."""


def as_json(
    fields: Fields, *, names: Sequence[str] | None, of_values: Sequence[str] = (), **about: Any
) -> bytes:
    """`predictions`, an object for each instance, after `about`; what is not finite is null.

    names: of the classes, which labels of one position have in place of indices. of_values: names
    of the numbers in `values`.
    """
    rows: list[dict[str, Any]] = [{} for _ in next(iter(fields.values()))]
    for path, array in fields.items():
        name, _, inner = path.partition("/")
        values = numbers(array)
        if names is not None and (name, array.ndim) == (LABEL, 1):
            values = [names[index] for index in values]
        elif names is not None and (path, array.ndim) == (f"{TOP}/{LABEL}", 2):
            values = [[names[index] for index in ranked] for ranked in values]
        elif names is not None and path == BOXES:
            values = [named(boxes, names) for boxes in values]
        elif of_values and path == VALUES:
            values = [dict(zip(of_values, row, strict=True)) for row in values]
        for row, value in zip(rows, values, strict=True):
            if inner:
                row.setdefault(name, {})[inner] = value
            else:
                row[name] = value
    return encode({**about, "predictions": rows})


def arrays_of(fields: Fields) -> Fields:
    """The fields that are arrays. Raises InvalidInput if none is."""
    arrays = {name: array for name, array in fields.items() if not array.dtype.hasobject}
    if not arrays:
        detail = "spans and boxes are told as application/json; for an array name an output"
        raise InvalidInput.at("/query/output", detail, title="the answer is no array")
    return arrays


def as_npz(fields: Fields, ids: Sequence[int] | None) -> bytes:
    """One array per field, batch first, and `ids`; labels are class indices."""
    buffer = io.BytesIO()
    arrays: dict[str, Any] = dict(fields)
    if ids is not None:
        arrays["ids"] = np.array(ids)
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def as_bytes(array: Array) -> bytes:
    """Little-endian, in C order."""
    return array.astype(little_endian(array.dtype.name)).tobytes()


def numbers(array: Array) -> list[Any]:
    """Nested lists for JSON: a float32 takes up to 9 digits there, 17 as the float64 it becomes."""
    digits = DIGITS.get(array.dtype.name)
    if digits is None:
        return list(array.tolist())
    wide = array.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        places = digits - 1 - np.floor(np.log10(np.abs(wide)))
        # A whole number divided by such a power is the float64 that is nearest to the decimal.
        fits = (places >= 0) & (places < len(EXACT_POWERS))
        powers = np.take(EXACT_POWERS, np.where(fits, places, 0).astype(np.int64))
        return list(np.where(fits, np.rint(wide * powers) / powers, wide).tolist())
