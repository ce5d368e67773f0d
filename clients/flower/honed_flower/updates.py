"""Reads updates and writes parameters as safetensors files, the daemon's format.

Parameters are in the order of their names. docs/rounds.md explains how updates are compressed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

SCALES, INDICES, VALUES = "hone.scales", "hone.indices", "hone.values"
METADATA = "hone.update"

Tensors = dict[str, NDArray[np.float32]]
Shapes = Mapping[str, tuple[int, ...]]


class BadUpdate(ValueError):
    """A device has sent something that is not an update of the model."""


def to_file(tensors: Tensors) -> bytes:
    """A file of parameters as the daemon takes it."""
    return save({name: np.ascontiguousarray(array) for name, array in sorted(tensors.items())})


def write_update(update: Tensors) -> bytes:
    """The file of an uncompressed update, as `read_update` takes it."""
    return save(update, {METADATA: '{"compression": "none"}'})


def read_update(content: bytes, shapes: Shapes) -> Tensors:
    """The differences in an update, float32, by name.

    shapes: of the model's parameters. Raises BadUpdate unless the update has these, and is finite.
    """
    try:
        stored = load(content)
        about = json.loads(json.loads(_header(content))["__metadata__"][METADATA])
        kind = about["compression"]
        if kind == "int8":
            tensors = _from_int8(stored)
        elif kind == "top_k":
            tensors = _from_places(stored, shapes)
        else:
            tensors = dict(stored)
    except Exception as error:  # whatever an untrusted file makes the reader raise
        raise BadUpdate(f"the update cannot be read: {type(error).__name__}: {error}") from error
    _require(tensors, shapes)
    return {name: tensors[name].astype(np.float32) for name in sorted(tensors)}


def _header(content: bytes) -> bytes:
    return content[8 : 8 + int.from_bytes(content[:8], "little")]


def _from_int8(stored: Mapping[str, NDArray[Any]]) -> Tensors:
    names = sorted(set(stored) - {SCALES})
    scales = stored[SCALES].astype(np.float32)
    return {
        name: stored[name].astype(np.float32) * scale
        for name, scale in zip(names, scales, strict=True)
    }


def _from_places(stored: Mapping[str, NDArray[Any]], shapes: Shapes) -> Tensors:
    """Decode a sparse update; memory depends on our shapes, not on those in untrusted metadata."""
    sizes = {name: prod(shapes[name]) for name in sorted(shapes)}
    flat = np.zeros(sum(sizes.values()), np.float32)
    flat[stored[INDICES]] = stored[VALUES]
    parts = np.split(flat, np.cumsum(list(sizes.values()))[:-1])
    return {name: part.reshape(shapes[name]) for name, part in zip(sizes, parts, strict=True)}


def _require(tensors: Tensors, shapes: Shapes) -> None:
    if missing := sorted(set(shapes) - set(tensors)):
        raise BadUpdate(f"{missing[0]!r} is missing")
    if strange := sorted(set(tensors) - set(shapes)):
        raise BadUpdate(f"the model trains no {strange[0]!r}")
    for name, values in tensors.items():
        if values.shape != tuple(shapes[name]):
            raise BadUpdate(f"{name!r} is {list(values.shape)}, the model has {list(shapes[name])}")
        if values.dtype.kind != "f":
            raise BadUpdate(f"{name!r} is {values.dtype}, not float32")
        if not np.isfinite(values).all():
            raise BadUpdate(f"{name!r} holds what is no finite number")


def norm(tensors: Tensors) -> float:
    """The norm of all tensors as one vector."""
    return float(
        np.sqrt(sum(float(np.square(array, dtype=np.float64).sum()) for array in tensors.values()))
    )
