"""Parameters and updates as Flower's records."""

from __future__ import annotations

import numpy as np
from flwr.app import Array, ArrayRecord

from honed_flower.updates import BadUpdate, Tensors

UPDATE = "update"
"""The one array of a reply: the bytes of the file that the daemon made."""


def to_arrays(tensors: Tensors) -> ArrayRecord:
    """In the order of their names."""
    return ArrayRecord(
        {name: Array(np.ascontiguousarray(tensors[name])) for name in sorted(tensors)}
    )


def to_tensors(arrays: ArrayRecord) -> Tensors:
    """By name."""
    return {name: array.numpy() for name, array in arrays.items()}


def pack(content: bytes) -> ArrayRecord:
    """An update as it came from the daemon, in the bytes that it has."""
    return ArrayRecord({UPDATE: Array(np.frombuffer(content, np.uint8))})


def unpack(arrays: ArrayRecord) -> bytes:
    """Raises BadUpdate."""
    if list(arrays) != [UPDATE]:
        raise BadUpdate(f"the reply has {', '.join(arrays) or 'nothing'}, not one {UPDATE!r}")
    return arrays[UPDATE].numpy().astype(np.uint8).tobytes()
