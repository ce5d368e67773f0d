"""Parameters and updates as Flower's records."""

from __future__ import annotations

import numpy as np
from flwr.app import Array, ArrayRecord

from honed_flower.updates import BadUpdate, Tensors

ARRAYS, CONFIG, METRICS = "arrays", "config", "metrics"
"""The records of a message."""
EXAMPLES = "num-examples"
UPDATE = "update"
"""The only array of a reply: the bytes of the file that the daemon made."""


def to_arrays(tensors: Tensors) -> ArrayRecord:
    """The record, float32, in the order of the tensors' names."""
    return ArrayRecord(
        {name: Array(np.ascontiguousarray(tensors[name], np.float32)) for name in sorted(tensors)}
    )


def to_tensors(arrays: ArrayRecord) -> Tensors:
    """The record's tensors by name."""
    return {name: array.numpy() for name, array in arrays.items()}


def pack(content: bytes) -> ArrayRecord:
    """The record of an update, as the unchanged bytes from the daemon."""
    return ArrayRecord({UPDATE: Array(np.frombuffer(content, np.uint8))})


def unpack(arrays: ArrayRecord) -> bytes:
    """The bytes of an update. Raises BadUpdate."""
    if list(arrays) != [UPDATE]:
        raise BadUpdate(f"the reply has {', '.join(arrays) or 'nothing'}, not one {UPDATE!r}")
    try:
        return arrays[UPDATE].numpy().astype(np.uint8).tobytes()
    except Exception as error:  # whatever an untrusted array makes the reader raise
        raise BadUpdate(f"the update cannot be read: {type(error).__name__}: {error}") from error
