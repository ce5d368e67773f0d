"""An ONNX file's outputs and metadata, read without onnx.

Field numbers are those of onnx.proto.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from service.training.protobuf import fields, whole_number
from storage.blobs.recipes import map_file
from storage.records.signatures import TensorSpec

GRAPH, METADATA = 7, 14
OUTPUT = 12
NAME, TYPE = 1, 2
TENSOR = 1
ELEMENTS, SHAPE = 1, 2
DIM, DIM_VALUE = 1, 1
KEY, VALUE = 1, 2
DTYPES = {
    **dict(enumerate(("float32", "uint8", "int8", "uint16", "int16", "int32", "int64"), 1)),
    **dict(enumerate(("bool", "float16", "float64", "uint32", "uint64"), 9)),
}


def read_header(path: Path) -> tuple[tuple[TensorSpec, ...], dict[str, str]]:
    """The outputs of one row, whose axis 0 is the batch, and the metadata."""
    model = map_file(path)
    outputs: list[TensorSpec] = []
    metadata = {}
    for number, _, body in fields(model):
        if number == GRAPH:
            outputs += [_tensor(value) for field, _, value in fields(body) if field == OUTPUT]
        elif number == METADATA:
            entry = {field: bytes(text).decode() for field, _, text in fields(body)}
            metadata[entry.get(KEY, "")] = entry.get(VALUE, "")
    return tuple(outputs), metadata


def _tensor(value: memoryview) -> TensorSpec:
    (name,) = _all(value, NAME)
    (kind,) = _all(value, TYPE)
    (tensor,) = _all(kind, TENSOR)
    (elements,) = (whole_number(whole) for field, whole, _ in fields(tensor) if field == ELEMENTS)
    (shape,) = _all(tensor, SHAPE)
    sizes = [
        sum(whole_number(whole) for field, whole, _ in fields(dim) if field == DIM_VALUE)
        for dim in _all(shape, DIM)
    ]
    return TensorSpec(bytes(name).decode(), DTYPES[elements], tuple(sizes[1:]))


def _all(message: memoryview, wanted: int) -> Iterator[memoryview]:
    return (body for field, _, body in fields(message) if field == wanted)
