"""Writes ONNX files with other weights piece by piece, without copying the weights.

Field numbers are those of onnx.proto.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from service.training.engines.manifest import Adapter
from service.training.engines.stored_weights import find
from service.training.protobuf import content, fields, head, integer
from storage.blobs.recipes import Copy, Data, Step, Sum, map_file, put_together, save

GRAPH, METADATA, INITIALIZER = 7, 14, 5
DIMS, DATA_TYPE, NAME, RAW_DATA = 1, 2, 8, 9
KEY, VALUE = 1, 2
FLOAT = 1


def write_with(
    skeleton: Path,
    tensors: Mapping[str, NDArray[np.float32]],
    path: Path,
    metadata: Mapping[str, str] | None = None,
    adapters: Sequence[Adapter] = (),
) -> None:
    """Write the model of `skeleton` to `path`, adding these initializers and metadata.

    adapters: those that merge are added to their weights, and their tensors are left out. With
    adapters, the steps from the skeleton to the model are written next to it (`recipe_of`). The
    skeleton must have one graph, and none of the tensors. Arrays must be contiguous.
    """
    model = map_file(skeleton)
    steps = list(_steps(model, tensors, metadata or {}, adapters))
    put_together(steps, model, path)
    if adapters:
        save(steps, recipe_of(path))


def recipe_of(path: Path) -> Path:
    """The path of the steps to an exported model."""
    return path.with_suffix(".recipe")


def _steps(
    model: memoryview,
    tensors: Mapping[str, NDArray[np.float32]],
    metadata: Mapping[str, str],
    adapters: Sequence[Adapter],
) -> Iterator[Step]:
    merging = {adapter.weight: adapter for adapter in adapters if adapter.merges}
    gone = {name for adapter in merging.values() for name in (adapter.left, adapter.right)}
    added = [part for name in tensors if name not in gone for part in _field(name, tensors[name])]
    size, at = sum(memoryview(part).nbytes for part in added), 0
    for number, field, body in fields(model):
        end = at + len(field)
        if number == GRAPH:
            yield Data(head(GRAPH, len(body) + size))
            yield from _merged(body, end - len(body), merging, tensors)
            yield from map(Data, added)
        else:
            yield Copy(at, end)
        at = end
    for key, value in metadata.items():
        entry = content(KEY, key.encode()) + content(VALUE, value.encode())
        yield Data(content(METADATA, entry))


def _merged(
    graph: memoryview,
    start: int,
    merging: Mapping[str, Adapter],
    tensors: Mapping[str, NDArray[np.float32]],
) -> Iterator[Step]:
    """The graph, which begins at `start`, with each adapter merged into its weight."""
    copied = at = start
    for number, field, _ in fields(graph):
        at += len(field)
        tensor = next(find(field, merging), None) if number == INITIALIZER and merging else None
        if tensor is None:
            continue
        adapter = merging[tensor.name]
        left, right = tensors[adapter.left], tensors[adapter.right]
        first = at - len(field) + tensor.start
        yield Copy(copied, first)
        matrices = left.reshape(len(left), -1), right.reshape(len(right), -1)
        yield Sum(first, *matrices, adapter.scale)
        copied = first + tensor.data.nbytes
    yield Copy(copied, start + len(graph))


def _field(name: str, array: NDArray[np.float32]) -> list[Any]:
    """An initializer of a graph, in pieces."""
    first = _tensor_head(name, array)
    pieces = [head(INITIALIZER, len(first) + array.nbytes) + first]
    return [*pieces, array.reshape(-1).data] if array.size else pieces


def _tensor_head(name: str, array: NDArray[np.float32]) -> bytes:
    """A TensorProto up to its data."""
    assert array.dtype == np.dtype("<f4")
    assert array.flags.c_contiguous
    dims = b"".join(integer(DIMS, size) for size in array.shape)
    kind = integer(DATA_TYPE, FLOAT)
    return dims + kind + content(NAME, name.encode()) + head(RAW_DATA, array.nbytes)
