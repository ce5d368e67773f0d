"""Preprocessing of a request: the daemon says how, the predictor's process does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

from service.prediction.errors import PredictionFailed
from service.prediction.frames import Tensors
from storage.records.models import Model
from storage.records.signatures import Signature, TargetSpec, TensorSpec

FILES = "files"
"""The tensor that holds the bytes of files, one behind the other, where files are asked about."""
_NO_TARGET = TargetSpec("", "float32", ())


def described(model: Model, files: Sequence[bytes] = ()) -> dict[str, Any]:
    """What the header says; nothing for a model without preprocessing."""
    if not model.preprocess:
        return {}
    said: dict[str, Any] = {
        "descriptions": list(model.preprocess),
        "inputs": [asdict(spec) for spec in model.signature.inputs],
    }
    if files:
        said["lengths"] = [len(file) for file in files]
    return {"preprocess": said}


def as_tensor(files: Sequence[bytes]) -> Tensors:
    """The bytes of files as a question carries them."""
    return {FILES: np.frombuffer(b"".join(files), np.uint8)}


def prepare(header: Mapping[str, Any], tensors: Tensors) -> Tensors:
    """The model's inputs. Tensors for a model that takes files are taken as they are.

    Raises PredictionFailed for a file that cannot be decoded.
    """
    said = header.get("preprocess")
    if said is None or not tensors:
        return tensors
    from service.preprocess import Unreadable, for_signature

    specs = tuple(TensorSpec(e["name"], e["dtype"], tuple(e["shape"])) for e in said["inputs"])
    pipeline = for_signature(Signature(specs, _NO_TARGET), said["descriptions"])
    if "lengths" not in said:
        return tensors if pipeline.files is not None else pipeline.tensors(tensors)
    ends = np.cumsum(said["lengths"]).tolist()
    data = tensors[FILES].tobytes()
    try:
        return pipeline.tensors(
            [data[end - n : end] for end, n in zip(ends, said["lengths"], strict=True)]
        )
    except Unreadable as error:
        raise PredictionFailed(f"{error}") from error
