"""Preprocessing of a request: the daemon describes it, the predictor process does it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from msgspec.structs import asdict

from service.errors import PredictionFailed
from service.prediction.frames import Tensors
from service.preprocess import for_model
from storage.records.models import Model
from storage.records.signatures import Signature, TargetSpec, TensorSpec

FILES = "files"
"""The tensor with the concatenated bytes of files, in questions about files."""
SCORES = "hone.scores"
"""Of a question, an output, and whether it is compared with the input, or a distance itself; of the
answer, how far each is off."""


def described(
    model: Model, files: Sequence[bytes] = (), tokenizer: str | None = None
) -> dict[str, Any]:
    """The header's fields; none for a model without preprocessing whose predictions are no scores.

    tokenizer: path of the model's, if it takes texts.
    """
    from service.training.tasks import TASKS  # late: the predictor's process asks for none

    task = TASKS[model.loss]
    scored = {SCORES: (model.output, task.compares_inputs)} if task.tells_scores else {}
    if not model.preprocess:
        return scored
    said: dict[str, Any] = {
        "descriptions": list(model.preprocess),
        "inputs": [asdict(spec) for spec in model.signature.inputs],
        "tokenizer": tokenizer,
        "span_types": model.signature.target.span_types,
    }
    if files:
        said["lengths"] = [len(file) for file in files]
        pipeline, target = for_model(model), model.signature.target
        said["sizes"] = bool(pipeline.masks(target) or pipeline.boxes(target))
    return {"preprocess": said, **scored}


def as_tensor(files: Sequence[bytes]) -> Tensors:
    """The bytes of files, as a question's tensor."""
    return {FILES: np.frombuffer(b"".join(files), np.uint8)}


def sizes_of_photos(header: Mapping[str, Any], tensors: Tensors) -> list[tuple[int, int]]:
    """Height and width of each photo as it is seen, where the answer is about its pixels."""
    said = header.get("preprocess")
    if said is None or not said.get("sizes"):
        return []
    from service.preprocess.pictures import upright_size

    return [upright_size(file) for file in _files(said, tensors)]


def prepare(header: Mapping[str, Any], tensors: Tensors) -> Tensors:
    """The model's inputs, and what is to be told beside its outputs: WORDS of texts with spans.
    Tensors for a model that takes files are used unchanged.

    Raises PredictionFailed for a file that cannot be decoded.
    """
    said = header.get("preprocess")
    if said is None or not tensors:
        return tensors
    from service.preprocess import Unreadable, for_signature

    specs = tuple(TensorSpec(e["name"], e["dtype"], tuple(e["shape"])) for e in said["inputs"])
    signature = Signature(specs, TargetSpec("", "float32", (), span_types=said.get("span_types")))
    pipeline = for_signature(signature, said["descriptions"], said.get("tokenizer"))
    if "lengths" not in said:
        return tensors if pipeline.files is not None else pipeline.tensors(tensors)
    try:
        return pipeline.tensors(_files(said, tensors))
    except Unreadable as error:
        raise PredictionFailed(f"{error}") from error


def scores_of(header: Mapping[str, Any], inputs: Tensors, outputs: Tensors) -> Tensors:
    """The mean squared error of each reconstruction, or mean square of each distance, (n,), if that
    is asked for and there is one.

    As service/training/tasks/reconstruction.py has it, which this process would load for it alone.
    """
    name, is_compared = header.get(SCORES, ("", False))
    output, truth = outputs.get(name), next(iter(inputs.values())) if is_compared else 0
    if output is None or (is_compared and output.shape != np.shape(truth)):
        return {}
    error = np.square(output.astype(np.float64) - truth)
    return {SCORES: error.reshape(len(error), -1).mean(axis=1)}


def _files(said: Mapping[str, Any], tensors: Tensors) -> list[bytes]:
    ends = np.cumsum(said["lengths"]).tolist()
    data = tensors[FILES].tobytes()
    return [data[end - n : end] for end, n in zip(ends, said["lengths"], strict=True)]
