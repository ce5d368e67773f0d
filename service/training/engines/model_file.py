"""ONNX files with other weights, written piece by piece: no copy of the weights is made.

The numbers of fields are those of onnx.proto.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from service.training.engines.manifest import Adapter
from service.training.engines.stored_weights import find, map_file
from service.training.protobuf import content, fields, head, integer

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
    """Write the model of `skeleton` to `path`, with these initializers and metadata more.

    adapters: those that merge change their weights, and their tensors are left out. The model must
    have one graph, and lack all of the tensors. Arrays must lie in one piece.
    """
    model = map_file(skeleton)
    merging = {each.weight: each for each in adapters if each.merges}
    gone = {name for each in merging.values() for name in (each.left, each.right)}
    added = {name: array for name, array in tensors.items() if name not in gone}
    heads = {name: _tensor_head(name, array) for name, array in added.items()}
    size = sum(
        len(head(INITIALIZER, len(heads[name]) + array.nbytes)) + len(heads[name]) + array.nbytes
        for name, array in added.items()
    )
    with path.open("wb") as file:
        for number, field, body in fields(model):
            if number != GRAPH:
                file.write(field)
                continue
            file.write(head(GRAPH, len(body) + size))
            _write_merged(file, body, merging, tensors)
            for name, array in added.items():
                _write_tensor(file, heads[name], array)
        for key, value in (metadata or {}).items():
            entry = content(KEY, key.encode()) + content(VALUE, value.encode())
            file.write(content(METADATA, entry))


def _write_merged(
    file: BinaryIO,
    graph: memoryview,
    merging: Mapping[str, Adapter],
    tensors: Mapping[str, NDArray[np.float32]],
) -> None:
    """The graph's bytes, with each adapter added to its weight."""
    for number, field, body in fields(graph):
        found = next(find(field, merging), None) if number == INITIALIZER and merging else None
        if found is None:
            file.write(field)
            continue
        adapter = merging[found.name]
        matrices = tensors[adapter.left], tensors[adapter.right]
        weight = merge(found.array(), *matrices, adapter.scale)
        file.write(head(INITIALIZER, len(body)))
        for part, whole, _ in fields(body):
            file.write(content(RAW_DATA, weight.tobytes()) if part == RAW_DATA else whole)


def merge(
    weight: NDArray[np.float32],
    left: NDArray[np.float32],
    right: NDArray[np.float32],
    scale: float,
) -> NDArray[np.float32]:
    """W + scale·left·right, in the shape of W, with the same bits on every machine.

    Column by column: a product of matrices is rounded otherwise on other processors, and by
    other numbers of threads.
    """
    rows = left.reshape(left.shape[0], -1) * np.float32(scale)
    columns = right.reshape(right.shape[0], -1)
    added = np.zeros((len(rows), columns.shape[1]), np.float32)
    for row, column in zip(rows.T, columns, strict=True):
        added += np.multiply.outer(row, column)
    return weight + added.reshape(weight.shape)


def _write_tensor(file: BinaryIO, first: bytes, array: NDArray[np.float32]) -> None:
    file.write(head(INITIALIZER, len(first) + array.nbytes))
    file.write(first)
    file.write(array.reshape(-1).data if array.size else b"")


def _tensor_head(name: str, array: NDArray[np.float32]) -> bytes:
    """A TensorProto up to its data."""
    assert array.dtype == np.dtype("<f4")
    assert array.flags.c_contiguous
    dims = b"".join(integer(DIMS, size) for size in array.shape)
    kind = integer(DATA_TYPE, FLOAT)
    return dims + kind + content(NAME, name.encode()) + head(RAW_DATA, array.nbytes)
