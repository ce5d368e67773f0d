"""ONNX files with other weights, written piece by piece: no copy of the weights is made.

The numbers of fields are those of onnx.proto.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

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
) -> None:
    """Write the model of `skeleton` to `path`, with these initializers and metadata more.

    The model must have one graph, and lack all of them. Arrays must lie in one piece.
    """
    model = memoryview(skeleton.read_bytes())
    heads = {name: _tensor_head(name, array) for name, array in tensors.items()}
    added = sum(
        len(head(INITIALIZER, len(heads[name]) + array.nbytes)) + len(heads[name]) + array.nbytes
        for name, array in tensors.items()
    )
    with path.open("wb") as file:
        for number, field, body in fields(model):
            if number != GRAPH:
                file.write(field)
                continue
            file.write(head(GRAPH, len(body) + added))
            file.write(body)
            for name, array in tensors.items():
                _write_tensor(file, heads[name], array)
        for key, value in (metadata or {}).items():
            entry = content(KEY, key.encode()) + content(VALUE, value.encode())
            file.write(content(METADATA, entry))


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
