"""Memory-mapped initializers of an ONNX file: pages are read on use."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from service.training.errors import ArtifactsUnreadable
from service.training.protobuf import fields, whole_number
from storage.blobs.recipes import map_file

GRAPH, INITIALIZER = 7, 5
DIMS, DATA_TYPE, NAME, RAW_DATA = 1, 2, 8, 9
DTYPES = {1: np.float32, 2: np.uint8, 3: np.int8, 10: np.float16}


class StoredTensor(Struct, frozen=True):
    """An initializer. data: its part of the file. start: of the data, within the graph's field."""

    name: str
    shape: tuple[int, ...]
    kind: int
    data: memoryview
    start: int

    def array(self) -> NDArray[Any]:
        """An array on the file's pages, or a copy if its alignment does not suit the processor."""
        values = np.frombuffer(self.data, DTYPES[self.kind]).reshape(self.shape)
        return values if values.flags.aligned else values.copy()


def find(graph: memoryview, names: Collection[str]) -> Iterator[StoredTensor]:
    """The initializers of a GraphProto that have these names and raw data."""
    for number, field, body in fields(graph):
        if number == INITIALIZER and (found := _tensor(body, len(field) - len(body))).name in names:
            yield found


def map_weights(path: Path, names: Collection[str]) -> dict[str, NDArray[Any]]:
    """Arrays on the pages of an ONNX file. Raises ArtifactsUnreadable if one is missing."""
    if not names:
        return {}
    graphs = [body for number, _, body in fields(map_file(path)) if number == GRAPH]
    arrays = {tensor.name: tensor.array() for graph in graphs for tensor in find(graph, names)}
    missing = sorted(set(names) - arrays.keys())
    if missing:
        raise ArtifactsUnreadable(f"{path} lacks {', '.join(missing)}; register the model anew")
    return arrays


def _tensor(message: memoryview, at: int) -> StoredTensor:
    """at: offset of the message in its field."""
    name, shape, kind, data, start = "", list[int](), 0, message[:0], 0
    for number, field, body in fields(message):
        at += len(field)
        if number == DIMS:
            shape.append(whole_number(field))
        elif number == DATA_TYPE:
            kind = whole_number(field)
        elif number == NAME:
            name = bytes(body).decode()
        elif number == RAW_DATA:
            data, start = body, at - len(body)
    return StoredTensor(name, tuple(shape), kind, data, start)
