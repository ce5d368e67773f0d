"""Compresses updates, and carries the error over to the next update.

Error feedback: Seide et al. (2014), 1-Bit Stochastic Gradient Descent; Karimireddy et al. (2019),
Error Feedback Fixes SignSGD. An int8 file has each tensor under its own name as I8, and
`hone.scales`, a factor for each, sorted by name. A top_k file has `hone.indices`, which are
positions in the concatenation of all tensors, sorted by name, and `hone.values`; its metadata has
names and shapes.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import safe_open
from safetensors.numpy import save_file

from service.training.protocol.messages.training import Compression
from storage.database.codec import dump

METADATA = "hone.update"
SCALES, INDICES, VALUES = "hone.scales", "hone.indices", "hone.values"
LARGEST = 127

Floats = NDArray[np.float32]
Tensors = Mapping[str, Floats]


def write_update(
    path: Path, update: Tensors, kind: Compression, *, share: float, facts: Mapping[str, Any]
) -> dict[str, Floats]:
    """Write an update, and return it as a reader will decode it.

    share: of the numbers that top_k keeps, at least one. facts: further metadata.
    """
    tensors = {name: update[name] for name in sorted(update)}
    stored: dict[str, NDArray[Any]] = dict(tensors)
    about: dict[str, Any] = {"compression": kind, **facts}
    if kind == "int8":
        stored = _to_int8(tensors)
    elif kind == "top_k":
        stored = _largest(tensors, share)
        about["shapes"] = {name: list(tensor.shape) for name, tensor in tensors.items()}
    save_file(stored, path, metadata={METADATA: dump(about)})
    return dict(tensors) if kind == "none" else read_update(path)


def read_update(path: Path) -> dict[str, Floats]:
    """The difference that a file contains, in float32."""
    with safe_open(path, framework="np") as file:
        about = json.loads(file.metadata()[METADATA])
        stored: dict[str, NDArray[Any]] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - no mapping
    if about["compression"] == "int8":
        scales = stored.pop(SCALES)
        return {
            name: stored[name].astype(np.float32) * scales[place]
            for place, name in enumerate(sorted(stored))
        }
    if about["compression"] == "top_k":
        return _spread(stored[INDICES], stored[VALUES], about["shapes"])
    return stored


def _to_int8(tensors: Tensors) -> dict[str, NDArray[Any]]:
    scales = np.zeros(len(tensors), np.float32)
    stored: dict[str, NDArray[Any]] = {}
    for place, (name, values) in enumerate(tensors.items()):
        scales[place] = np.abs(values).max(initial=0) / LARGEST
        scale = scales[place] or np.float32(1)
        stored[name] = np.clip(np.rint(values / scale), -LARGEST, LARGEST).astype(np.int8)
    return {**stored, SCALES: scales}


def _largest(tensors: Tensors, share: float) -> dict[str, NDArray[Any]]:
    flat = np.concatenate([tensor.reshape(-1) for tensor in tensors.values()])
    count = max(1, ceil(share * len(flat)))
    chosen = np.sort(np.argpartition(np.abs(flat), len(flat) - count)[len(flat) - count :])
    return {INDICES: chosen.astype(np.uint32), VALUES: flat[chosen]}


def _spread(
    indices: NDArray[Any], values: Floats, shapes: Mapping[str, list[int]]
) -> dict[str, Floats]:
    sizes = [int(np.prod(shape)) for shape in shapes.values()]
    flat = np.zeros(sum(sizes), np.float32)
    flat[indices] = values
    parts = np.split(flat, np.cumsum(sizes)[:-1])
    return {
        name: part.reshape(shape) for (name, shape), part in zip(shapes.items(), parts, strict=True)
    }
